/* promote: what becomes of files of this machine, of remote objects and of copies on request: promote, blob-download, make-n-copies,
 * ec-encode. */
#include "api/admin/admin.h"
#include "api/ais/jobs.h"
#include "api/ais/ops.h"
#include "base/mem.h"

/* Starts a job, and answers with its id. Takes `args`. */
static enum err
promote_begin(struct request *q, const char *kind, json_t *args, struct span list)
{
    struct job_request ask = {
        .kind = span_of(kind), .user = q->caller.name, .args = args, .list = list};
    struct errbuf eb = {{0}};
    char id[JOB_ID_TEXT];
    enum err rc;

    json_object_set_new(args, "bucket", json_string(q->bucket->uname));
    rc = job_begin(q->api->options.jobs, &ask, id, &eb);
    json_decref(args);
    if (rc == ERR_BAD_REQUEST || rc == ERR_TOO_LARGE)
        return ais_fault(q, 400, NULL, "%s", eb.text);
    return rc == ERR_OK ? ais_answer_text(q, 200, span_of(id))
                        : ais_fault_from(q, rc, &eb);
}

/* Files of ais.promote_dir. */
enum err
ais_promote(struct request *q)
{
    static const struct {
        const char *theirs, *ours;
    } flags[] = {{"rcr", "recursive"}, {"ovw", "overwrite"}, {"dls", "delete"}};
    const json_t *v = q->ais->value;
    const char *source, *object;
    json_t *args;
    enum err rc = ais_text(q, v, "src", &source);

    if (rc == ERR_OK)
        rc = ais_text(q, v, "obj", &object);
    if (rc == ERR_OK && object[0] != '\0')
        rc = ais_object_check(q, span_of(object));
    if (rc != ERR_OK)
        return rc;
    args = json_object();
    json_object_set_new(args, "source",
                        json_string(source[0] != '\0' ? source : q->ais->name));
    json_object_set_new(args, "object", json_string(object));
    for (size_t i = 0; rc == ERR_OK && i < ARRAY_LEN(flags); i++) {
        bool on = false;

        rc = ais_flag(q, v, flags[i].theirs, &on);
        if (on)
            json_object_set_new(args, flags[i].ours, json_integer(1));
    }
    if (rc == ERR_OK)
        return promote_begin(q, "promote", args, SPAN(""));
    json_decref(args);
    return rc;
}

/* A large object of a remote bucket is fetched, in chunks as every one is here. */
enum err
ais_blob_download(struct request *q)
{
    struct span name = span_of(q->ais->name);
    struct buf list;
    enum err rc;

    if (!q->bucket->cached)
        return ais_fault(q, 400, NULL, "bucket \"%s\" is not remote",
                         q->ais->bucket.text);
    rc = ais_object_check(q, name);
    if (rc != ERR_OK)
        return rc;
    buf_init(&list, KIB(4));
    rc = ais_put_name(q, name, &list);
    if (rc == ERR_OK)
        rc = promote_begin(q, "prefetch", json_object(), buf_span(&list));
    buf_fini(&list);
    return rc;
}

/* The number of copies is a setting of the bucket; the disks make them in the background. */
enum err
ais_make_copies(struct request *q)
{
    const json_t *v = q->ais->value;
    json_int_t copies = json_integer_value(v);
    struct errbuf eb = {{0}};
    char job[JOB_ID_TEXT] = "";
    json_t *doc;
    enum err rc;

    if (!json_is_integer(v) || copies < 1 || copies > 32)
        return ais_fault(q, 400, NULL, "make-n-copies: the value is a number of copies");
    doc = json_pack("{s:I}", "copies", copies);
    rc = admin_bucket_change(q, doc, job, &eb);
    json_decref(doc);
    if (rc == ERR_BAD_REQUEST)
        return ais_fault(q, 400, NULL, "%s", eb.text);
    if (rc != ERR_OK)
        return ais_fault_from(q, rc, &eb);
    return job[0] != '\0'
               ? ais_answer_text(q, 200, span_of(job))
               : ais_job_done(q, "make-n-copies", SPAN("ais"), span_of(q->bucket->name));
}

enum err
ais_no_erasure_code(struct request *q)
{
    return ais_fault(
        q, 501, "ErrUnsupp",
        "ec-encode: erasure coding is not implemented; make-n-copies protects "
        "the bucket \"%s\" by copies on more disks",
        q->ais->bucket.text);
}
