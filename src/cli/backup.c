/* backup: all that lives only in a running node, as one tar. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/admin.h"
#include "cli/archive.h"
#include "cli/passphrase.h"
#include "store/store_exported.h"
#include "wire/tar.h"

static const struct flag flags[] = {
    {"with-keys", 0, NULL, "keys of users and remotes too, sealed under a passphrase",
     false},
    {"passphrase-file", 0, "FILE", "the passphrase: its first line", false},
    {"yes", 'y', NULL, "replace a file that is there", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay backup /backup/forebay-2026-11-21.tar",
    "forebay backup --with-keys --passphrase-file ~/.forebay-passphrase node.tar",
    "forebay backup - | zstd | ssh host 'cat > node.tar.zst'",
    NULL,
};
static const struct verb verb = {
    .name = "backup",
    .summary = "write everything that lives only in a running node into one tar",
    .arguments = "TARGET",
    .least = 1,
    .most = 1,
    .examples = examples,
    .flags = flags,
    .more =
        "TARGET is a file, or - for standard output. In it are the buckets with their "
        "settings and every object of the native\n"
        "ones, each whole, as it was at one moment between begin and end of the backup, "
        "with its older versions and delete\n"
        "markers; and uploads in progress with their parts. Not in it: copies of remote "
        "buckets and, without --with-keys, keys.\n"
        "forebay restore makes a node of it; tar reads it too.",
};

struct backing {
    struct archive_out out;
    struct tar_reader reader;
    struct arena *arena;
    struct progress progress;
    uint64_t objects, bytes, damaged;
    uint64_t older, markers, uploads, parts;
    bool ended; /* .forebay/end came: it is whole */
};

static enum err
put_member(struct backing *b, const char *name, struct span bytes, struct errbuf *eb)
{
    struct tar_member t = {
        .path = span_of(name), .size = bytes.len, .mode = 0600, .type = TAR_FILE};
    struct buf text;
    enum err rc;

    buf_init(&text, KIB(64));
    tar_put_head(&text, &t, 0);
    rc = archive_put(&b->out, buf_span(&text), eb);
    if (rc == ERR_OK)
        rc = archive_put(&b->out, bytes, eb);
    buf_clear(&text);
    tar_put_padding(&text, bytes.len);
    if (rc == ERR_OK)
        rc = archive_put(&b->out, buf_span(&text), eb);
    buf_fini(&text);
    return rc;
}

static bool
is_private(const char *endpoint)
{
    static const char *const good[] = {"https://", "http://127.", "http://localhost",
                                       "http://[::1]"};

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (strncmp(endpoint, good[i], strlen(good[i])) == 0)
            return true;
    return false;
}

/* The keys come first, sealed by the server. */
static enum err
backup_put_keys(struct session *s, struct backing *b, const struct passphrase *p)
{
    struct s3_request r = {.method = "POST",
                           .path = SPAN("/_/backup/keys"),
                           .body = (struct span){p->text, p->len}};
    struct arena *a = arena_new(KIB(64), MIB(32));
    struct span sealed;
    enum err rc;

    if (is_private(s->endpoint))
        rc = admin_call(s, &r, a, &sealed);
    else
        rc = err_set(&s->eb, ERR_DENIED,
                     "\"%s\": keys travel over https or on this machine only",
                     s->endpoint);
    if (rc == ERR_OK)
        rc = put_member(b, ".forebay/keys", sealed, &s->eb);
    arena_free(&a);
    return rc;
}

static void
look_at_member(struct backing *b)
{
    const struct tar_head *h = &b->reader.head;
    struct exported e;
    struct errbuf why = {{0}};

    arena_reset(b->arena);
    if (h->xattr.len > 0 && exported_read(h->xattr, b->arena, &e, &why) == ERR_OK) {
        exported_place(&e, h->path);
        b->bytes += e.size;
        b->markers += e.what == EXPORTED_MARKER;
        b->uploads += e.what == EXPORTED_UPLOAD;
        b->parts += e.what == EXPORTED_PART;
        b->older += e.older;
        b->objects +=
            e.what == EXPORTED_OBJECT || (e.what == EXPORTED_VERSION && !e.older);
    }
    b->ended = b->ended || span_is(h->path, ".forebay/end");
}

/* The stream is read along, so that a cut or a damaged one is no backup. */
static enum err
backup_watch(struct backing *b, struct span in, struct errbuf *eb)
{
    struct span data;

    for (;;) {
        switch (tar_reader_next(&b->reader, &in, &data, eb)) {
        case TAR_MORE:
        case TAR_END:
            return ERR_OK;
        case TAR_MEMBER:
            look_at_member(b);
            break;
        case TAR_DATA:
            for (size_t i = 0;
                 span_is(b->reader.head.path, ".forebay/damaged") && i < data.len; i++)
                b->damaged += data.at[i] == '\n';
            break;
        case TAR_BAD:
            return ERR_BACKEND;
        }
    }
}

static enum err
put_stream(struct session *s, struct backing *b)
{
    struct s3_call *call = NULL;
    struct s3_failure f;
    struct iobuf *buf = NULL;
    size_t n = 1;
    enum err rc = s3_page_begin(s->s3, SPAN("/_/backup"), &call, &f, &s->eb);

    if (rc == ERR_OK)
        rc = iobuf_get(KIB(256), &buf);
    while (rc == ERR_OK && n > 0) {
        rc = s3_read(call, buf->at, buf->room, &n, &s->eb);
        if (rc == ERR_OK && n > 0)
            rc = archive_put(&b->out, (struct span){buf->at, n}, &s->eb);
        if (rc == ERR_OK && n > 0)
            rc = backup_watch(b, (struct span){buf->at, n}, &s->eb);
        if (rc == ERR_OK)
            progress_bytes(&b->progress, n);
    }
    if (rc == ERR_OK && !b->ended)
        rc =
            err_set(&s->eb, ERR_INCOMPLETE, "the server ended the backup before its end");
    iobuf_drop(&buf);
    s3_end(&call);
    return rc;
}

static void
backup_report(const struct session *s, const struct backing *b, const char *target)
{
    FILE *to = strcmp(target, "-") == 0 ? stderr : stdout;
    char size[NUM_SIZE_TEXT];

    if (s->json)
        fprintf(to,
                "{\"objects\":%" PRIu64 ",\"older\":%" PRIu64 ",\"markers\":%" PRIu64
                ",\"uploads\":%" PRIu64 ",\"parts\":%" PRIu64 ",\"bytes\":%" PRIu64
                ",\"damaged\":%" PRIu64 "}\n",
                b->objects, b->older, b->markers, b->uploads, b->parts, b->bytes,
                b->damaged);
    else if (!s->quiet || b->damaged > 0)
        fprintf(to,
                "%" PRIu64 " objects, %" PRIu64 " older versions, %" PRIu64
                " delete markers, %" PRIu64 " uploads in progress, %s; %" PRIu64
                " damaged ones are left out%s\n",
                b->objects, b->older, b->markers, b->uploads,
                num_size_text(b->bytes, size), b->damaged,
                b->damaged > 0 ? ": .forebay/damaged in the tar names them" : "");
}

static enum exit_code
run_in_session(struct session *s)
{
    const char *target = s->args->at[0];
    struct passphrase p = {.len = 0};
    struct backing b = {.objects = 0};
    bool keys = args_has(s->args, "with-keys");
    enum err rc = ERR_OK;

    if (keys)
        rc = passphrase_load(args_value(s->args, "passphrase-file"), &p, &s->eb);
    if (rc == ERR_OK)
        rc = archive_out_open(&b.out, target, &s->eb);
    if (rc != ERR_OK) {
        passphrase_wipe(&p);
        return session_fail(s, rc);
    }
    b.arena = arena_new(4096, MIB(1));
    tar_reader_init(&b.reader);
    progress_begin(&b.progress, "saved", s->quiet, 0, 0);
    if (keys)
        rc = backup_put_keys(s, &b, &p);
    if (rc == ERR_OK)
        rc = put_stream(s, &b);
    progress_end(&b.progress);
    if (rc == ERR_OK)
        rc = archive_keep(&b.out, &s->eb);
    passphrase_wipe(&p);
    archive_out_close(&b.out);
    tar_reader_fini(&b.reader);
    arena_free(&b.arena);
    if (rc != ERR_OK)
        return session_fail(s, rc);
    backup_report(s, &b, target);
    return b.damaged == 0 ? EXIT_OK_ : EXIT_CHECKSUM;
}

static enum exit_code
backup_run(const struct args *a)
{
    struct errbuf eb = {{0}};

    if (args_has(a, "with-keys") != (args_value(a, "passphrase-file") != NULL)) {
        (void)err_set(&eb, ERR_BAD_REQUEST,
                      "--with-keys and --passphrase-file go together");
        return cli_usage(&eb, &verb);
    }
    if (local_exists(a->at[0]) && !args_has(a, "yes")) {
        (void)err_set(&eb, ERR_EXISTS, "\"%s\" is there; add --yes to replace it",
                      a->at[0]);
        return cli_usage(&eb, &verb);
    }
    return session_run(a, run_in_session, NULL);
}

const struct cli_verb cli_backup = {&verb, backup_run};
