// The AWS SDK for JavaScript v3: default checksums, streams of unknown length, multipart, presigned URLs.
import { readFileSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import http from "node:http";
import https from "node:https";
import assert from "node:assert";
import * as S3 from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";
import { NodeHttpHandler } from "@smithy/node-http-handler";

const [endpoint, accessKeyId, secretAccessKey, Bucket, style, cafile] = process.argv.slice(2);
// Names under s3.localhost are 127.0.0.1, whatever the resolver thinks.
const lookup = (name, options, done) => (options.all ? done(null, [{ address: "127.0.0.1", family: 4 }]) : done(null, "127.0.0.1", 4));
const ca = cafile ? readFileSync(cafile) : undefined;
const agents = { httpAgent: new http.Agent({ keepAlive: true, lookup }), httpsAgent: new https.Agent({ keepAlive: true, lookup, ca }) };
const s3 = new S3.S3Client({ endpoint, region: "us-east-1", credentials: { accessKeyId, secretAccessKey }, forcePathStyle: style === "path", maxAttempts: 1, requestHandler: new NodeHttpHandler(agents) });
const call = (name, input) => s3.send(new S3[name + "Command"]({ Bucket, ...input }));
const read = async (Key) => Buffer.from(await (await call("GetObject", { Key })).Body.transformToByteArray());

await call("CreateBucket", {});
for (const Key of ["plain", "dir/ü b+c%2F~é!*'()", "a//b"]) {
  await call("PutObject", { Key, Body: Key, Metadata: { m: "v" } });
  assert.equal((await read(Key)).toString(), Key);
}
const big = randomBytes(18 << 20);
await new Upload({ client: s3, params: { Bucket, Key: "big", Body: Readable.from([big.subarray(0, 7 << 20), big.subarray(7 << 20)]) }, partSize: 5 << 20 }).done();
assert(big.equals(await read("big")));
const half = randomBytes(300000);
await call("PutObject", { Key: "stream", Body: Readable.from([half.subarray(0, 1000), half.subarray(1000)]), ContentLength: half.length });
assert(half.equals(await read("stream")));
await assert.rejects(call("PutObject", { Key: "plain", Body: "", IfNoneMatch: "*" }), { name: "PreconditionFailed" });
await assert.rejects(call("GetObject", { Key: "none" }), { name: "NoSuchKey" });
const url = await getSignedUrl(s3, new S3.GetObjectCommand({ Bucket, Key: "plain" }), { expiresIn: 60 });
const fetched = await new Promise((done, fail) =>
  (url.startsWith("https") ? https : http).get(url, { agent: url.startsWith("https") ? agents.httpsAgent : agents.httpAgent }, (r) => r.on("data", (d) => done(d.toString()))).on("error", fail),
);
assert.equal(fetched, "plain");
const keys = [];
for await (const page of S3.paginateListObjectsV2({ client: s3, pageSize: 2 }, { Bucket })) keys.push(...page.Contents.map((o) => ({ Key: o.Key })));
assert.equal(keys.length, 5);
assert.equal((await call("DeleteObjects", { Delete: { Objects: keys } })).Deleted.length, 5);
await call("DeleteBucket", {});
console.log("aws-sdk-js v3 ok");
process.exit(0);
