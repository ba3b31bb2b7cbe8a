#include "cli/claims.h"

#include <locale.h>
#include <stdlib.h>
#include <wctype.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/files.h"
#include "rt/file.h"

/* Lower case, character by character: what file systems do, but for a few letters that have several lower cases. */
static void
claims_fold(struct span name, struct buf *out)
{
    static locale_t letters; /* one thread */

    if (letters == NULL)
        letters = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
    for (size_t i = 0; i < name.len;) {
        uint32_t code;
        size_t len = utf8_next(span_from(name, i), &code);
        char text[4];

        if (len == 0) {
            buf_putc(out, name.at[i++]);
            continue;
        }
        if (letters != NULL)
            code = (uint32_t)towlower_l((wint_t)code, letters);
        else if (code >= 'A' && code <= 'Z')
            code += 'a' - 'A';
        buf_put(out, text, utf8_put(code, text));
        i += len;
    }
}

/* Never 0. */
static uint64_t
claims_hash_of(const struct claims *c, struct span name)
{
    uint64_t hash;
    struct buf low;

    if (!c->folds)
        return hash_xxh3(name.at, name.len, c->seed) | 1;
    buf_init(&low, 4 * name.len + 4);
    claims_fold(name, &low);
    hash = hash_xxh3(low.at, low.len, c->seed) | 1;
    buf_fini(&low);
    return hash;
}

static size_t
claims_slot_of(const struct claims *c, uint64_t hash)
{
    size_t i = (size_t)(hash >> 1) & (c->room - 1);

    while (c->at[2 * i] != 0 && c->at[2 * i] != hash)
        i = (i + 1) & (c->room - 1);
    return 2 * i;
}

static void
claims_grow(struct claims *c)
{
    struct claims old = *c;

    if (c->seed == 0)
        rt_random(&c->seed, sizeof c->seed);
    c->room = MAX(old.room * 2, 1024u);
    c->at = xcalloc(2 * c->room, sizeof *c->at);
    for (size_t i = 0; i < 2 * old.room; i += 2) {
        size_t to;

        if (old.at[i] == 0)
            continue;
        to = claims_slot_of(c, old.at[i]);
        c->at[to] = old.at[i];
        c->at[to + 1] = old.at[i + 1];
    }
    free(old.at);
}

enum claim
claims_take(struct claims *c, struct span name, struct span source)
{
    uint64_t hash, from;
    size_t i;

    if (2 * c->count >= c->room)
        claims_grow(c);
    hash = claims_hash_of(c, name);
    from = hash_xxh3(source.at, source.len, c->seed);
    i = claims_slot_of(c, hash);
    if (c->at[i] != 0)
        return c->at[i + 1] == from ? CLAIM_AGAIN : CLAIM_TAKEN;
    c->at[i] = hash;
    c->at[i + 1] = from;
    c->count++;
    return CLAIM_NEW;
}

bool
claims_has(const struct claims *c, struct span name)
{
    return c->count > 0 && c->at[claims_slot_of(c, claims_hash_of(c, name))] != 0;
}

enum err
claims_refuse(const struct claims *c, const char *name, struct errbuf *eb)
{
    return err_set(
        eb, ERR_EXISTS,
        c->folds ? "another key was already written to %s: this file system ignores "
                   "case. Copy one of them under another name"
                 : "another source of this command was already written to %s: the "
                   "first one stays",
        name);
}

void
claims_fini(struct claims *c)
{
    free(c->at);
    *c = (struct claims){0};
}

enum err
claims_probe(struct claims *c, const char *folder, struct errbuf *eb)
{
    return files_folds_case(folder, &c->folds, eb) == ERR_CANCELLED ? ERR_CANCELLED
                                                                    : ERR_OK;
}
