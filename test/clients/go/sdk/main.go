// The AWS SDK for Go v2: defaults of 2025-26 (CRC32 checksums, aws-chunked over https), the transfer manager, presigned URLs.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must(ok bool, what string) {
	if !ok {
		panic(what)
	}
}

// Names under s3.localhost are 127.0.0.1, whatever the resolver thinks.
func transport(cafile string) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+port)
	}
	if cafile != "" {
		pem, err := os.ReadFile(cafile)
		check(err)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		t.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	return t
}

func main() {
	endpoint, key, secret, bucket, style, cafile := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]
	ctx := context.Background()
	plain := &http.Client{Transport: transport(cafile)}
	c := s3.New(s3.Options{
		BaseEndpoint: &endpoint, Region: "us-east-1", UsePathStyle: style == "path", HTTPClient: plain,
		Credentials: credentials.NewStaticCredentialsProvider(key, secret, ""), RetryMaxAttempts: 1,
	})
	_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket})
	check(err)
	for _, name := range []string{"plain", "dir/ü b+c%2F~é", "a//b"} {
		_, err = c.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: aws.String(name), Body: bytes.NewReader([]byte(name)), Metadata: map[string]string{"m": "v"}})
		check(err)
		got, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String(name), ChecksumMode: types.ChecksumModeEnabled})
		check(err)
		body, err := io.ReadAll(got.Body)
		check(err)
		must(string(body) == name && got.Metadata["m"] == "v", name)
	}
	big := make([]byte, 18<<20)
	_, err = rand.Read(big)
	check(err)
	_, err = manager.NewUploader(c, func(u *manager.Uploader) { u.PartSize = 5 << 20 }).Upload(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: aws.String("big"), Body: bytes.NewReader(big)})
	check(err)
	out := manager.NewWriteAtBuffer(nil)
	_, err = manager.NewDownloader(c).Download(ctx, out, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("big")})
	check(err)
	must(bytes.Equal(out.Bytes(), big), "big differs")
	_, err = c.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: aws.String("plain"), Body: bytes.NewReader(nil), IfNoneMatch: aws.String("*")})
	var failed smithy.APIError
	must(errors.As(err, &failed) && failed.ErrorCode() == "PreconditionFailed", "If-None-Match")
	_, err = c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: aws.String("none")})
	var none *types.NotFound
	must(errors.As(err, &none), "HEAD of nothing")
	url, err := s3.NewPresignClient(c).PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("plain")})
	check(err)
	reply, err := plain.Get(url.URL)
	check(err)
	body, err := io.ReadAll(reply.Body)
	check(err)
	must(string(body) == "plain", "presigned")
	var keys []types.ObjectIdentifier
	pages := s3.NewListObjectsV2Paginator(c, &s3.ListObjectsV2Input{Bucket: &bucket, MaxKeys: aws.Int32(2)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		check(err)
		for _, o := range page.Contents {
			keys = append(keys, types.ObjectIdentifier{Key: o.Key})
		}
	}
	must(len(keys) == 4, "listing")
	deleted, err := c.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &bucket, Delete: &types.Delete{Objects: keys}})
	check(err)
	must(len(deleted.Deleted) == 4, "DeleteObjects")
	_, err = c.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket})
	check(err)
	fmt.Println("aws-sdk-go-v2 ok")
}
