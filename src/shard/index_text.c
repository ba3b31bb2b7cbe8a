/* index_text: indexes for other programs; see index_text.h. */
#include "shard/index_text.h"

#include <assert.h>
#include <inttypes.h>

#include "base/mem.h"
#include "wire/json.h"

#define TEXT_PIECE (64u << 10)
#define TEXT_LINE  (32u << 10) /* room for what one member adds */

bool
shard_text_of(struct span name, enum shard_text *out)
{
    static const char *const names[] = {[SHARD_TEXT_JSON] = "json",
                                        [SHARD_TEXT_WIDS] = "wids",
                                        [SHARD_TEXT_DALI] = "dali"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (span_is(name, names[i])) {
            *out = (enum shard_text)i;
            return true;
        }
    return false;
}

struct text_out {
    struct buf text;
    struct shard_sink sink;
};

static enum err
text_send(struct text_out *o, size_t from, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(!o->text.full);
    if (o->text.len > from)
        rc = o->sink.put(o->sink.arg, buf_span(&o->text), eb);
    if (o->text.len > from)
        buf_clear(&o->text);
    return rc;
}

/* ---- samples ---- */

/* Where the extension of a name begins: behind the first dot of its last component; 0: it has none. */
static size_t
extension_at(struct span name)
{
    struct span key = shard_sample_key(name);

    return key.len < name.len ? key.len + 1 : 0;
}

/* Is this a member of a sample? */
static bool
is_of_sample(struct span name, bool dali)
{
    size_t at = extension_at(name);

    if (at == 0)
        return false;
    return !dali || (at < name.len && at > 1 && name.at[at - 2] != '/');
}

/* Is the member before it of another sample? *last: its key; becomes that of this one. */
static bool
begins_sample(struct span name, struct span *last)
{
    struct span key = shard_sample_key(name);
    bool other = last->at == NULL || !span_eq(key, *last);

    *last = key;
    return other;
}

static uint64_t
count_samples(const struct shard_index *x, bool dali)
{
    struct span last = {NULL, 0};
    uint64_t n = 0;

    for (uint32_t i = 0; i < x->count; i++) {
        struct span name = shard_entry_name(x, &x->entries[i]);

        if (is_of_sample(name, dali))
            n += begins_sample(name, &last);
    }
    return n;
}

uint64_t
shard_index_samples(const struct shard_index *x)
{
    return count_samples(x, false);
}

/* ---- the forms ---- */

static enum err
text_json(struct text_out *o, const struct shard_index *x,
          const struct shard_about *about, struct errbuf *eb)
{
    struct json j;
    enum err rc = ERR_OK;

    json_begin(&j, &o->text);
    json_open_object(&j, NULL);
    json_span(&j, "shard", about->name);
    json_text(&j, "format", shard_format_extension(x->format) + 1);
    json_u64(&j, "size", about->size);
    json_span(&j, "etag", about->etag);
    json_u64(&j, "count", x->count);
    json_u64(&j, "samples", count_samples(x, false));
    json_open_array(&j, "members");
    for (uint32_t i = 0; rc == ERR_OK && i < x->count; i++) {
        const struct shard_entry *e = &x->entries[i];

        json_open_object(&j, NULL);
        json_span(&j, "name", shard_entry_name(x, e));
        json_u64(&j, "size", e->size);
        if (x->format == SHARD_TAR)
            json_u64(&j, "offset", e->offset);
        else
            json_u64(&j, "stored", e->stored);
        json_i64(&j, "mtime", e->mtime_s);
        json_end(&j);
        rc = text_send(o, TEXT_PIECE, eb);
    }
    json_end(&j);
    json_end(&j);
    buf_putc(&o->text, '\n');
    return rc;
}

static enum err
text_wids(struct text_out *o, const struct shard_index *x,
          const struct shard_about *about)
{
    struct json j;

    json_begin(&j, &o->text);
    json_open_object(&j, NULL);
    json_text(&j, "__kind__", "wids-shard-index-v1");
    json_u64(&j, "wids_version", 1);
    json_open_array(&j, "shardlist");
    json_open_object(&j, NULL);
    json_span(&j, "url", about->url);
    json_u64(&j, "nsamples", count_samples(x, false));
    json_u64(&j, "filesize", about->size);
    if (about->etag_is_md5)
        json_span(&j, "md5sum", about->etag);
    json_end(&j);
    json_end(&j);
    json_end(&j);
    buf_putc(&o->text, '\n');
    return ERR_OK;
}

/* Its fields are separated by spaces. */
static enum err
check_dali_names(const struct shard_index *x, struct errbuf *eb)
{
    for (uint32_t i = 0; i < x->count; i++) {
        struct span name = shard_entry_name(x, &x->entries[i]);

        for (size_t k = 0; k < name.len; k++)
            if ((unsigned char)name.at[k] <= ' ' || (unsigned char)name.at[k] >= 0x7f)
                return err_set(eb, ERR_BAD_REQUEST,
                               "member \"%.*s\": an index of DALI cannot hold names with "
                               "spaces or bytes beyond ASCII; rename the member",
                               (int)MIN(name.len, 150), name.at);
    }
    return ERR_OK;
}

static enum err
text_dali(struct text_out *o, const struct shard_index *x, struct errbuf *eb)
{
    struct span last = {NULL, 0};
    enum err rc = check_dali_names(x, eb);

    if (rc != ERR_OK)
        return rc;
    buf_printf(&o->text, "v1.2 %" PRIu64, count_samples(x, true));
    for (uint32_t i = 0; rc == ERR_OK && i < x->count; i++) {
        const struct shard_entry *e = &x->entries[i];
        struct span name = shard_entry_name(x, e);

        if (!is_of_sample(name, true))
            continue;
        buf_putc(&o->text, begins_sample(name, &last) ? '\n' : ' ');
        buf_put_span(&o->text, span_from(name, extension_at(name)));
        buf_printf(&o->text, " %" PRIu64 " %" PRIu64 " ", e->offset, e->size);
        buf_put_span(&o->text, name);
        rc = text_send(o, TEXT_PIECE, eb);
    }
    buf_putc(&o->text, '\n');
    return rc;
}

enum err
shard_index_text(const struct shard_index *x, enum shard_text form,
                 const struct shard_about *about, struct shard_sink sink,
                 struct errbuf *eb)
{
    struct text_out o = {.sink = sink};
    enum err rc = ERR_OK;

    if (form != SHARD_TEXT_JSON && x->format != SHARD_TAR)
        return err_set(
            eb, ERR_BAD_REQUEST,
            "an index for WebDataset or DALI is of an uncompressed tar; a %s has "
            "one as \"json\" only",
            shard_format_extension(x->format) + 1);
    buf_init(&o.text, TEXT_PIECE + TEXT_LINE + 2 * TAR_PATH_MAX);
    switch (form) {
    case SHARD_TEXT_JSON:
        rc = text_json(&o, x, about, eb);
        break;
    case SHARD_TEXT_WIDS:
        rc = text_wids(&o, x, about);
        break;
    case SHARD_TEXT_DALI:
        rc = text_dali(&o, x, eb);
        break;
    }
    if (rc == ERR_OK)
        rc = text_send(&o, 0, eb);
    buf_fini(&o.text);
    return rc;
}
