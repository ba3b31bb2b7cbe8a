/* s3_model: what S3 says of a few buckets, kept as plainly as can be, and the requests that are held against it: one step
 * is one operation that the dice choose. */
#pragma once
#include "unit/api/s3_model_lists.h"
#include "unit/api/s3_model_uploads.h"

/* ---- the bucket ---- */

static inline void
m_versioning(struct model *m)
{
    struct m_bucket *b = m_any_bucket(m);
    bool on = m_rnd(m, 2) == 0;
    struct m_answer a;
    char target[64], doc[160];

    if (b->versioning == MAP_UNVERSIONED && m_rnd(m, 4) != 0)
        return; /* stays for a while as buckets begin */
    snprintf(target, sizeof target, "/%s?versioning", b->name);
    snprintf(doc, sizeof doc,
             "<VersioningConfiguration><Status>%s</Status></VersioningConfiguration>",
             on ? "Enabled" : "Suspended");
    m_ask(m, "PUT", target, NULL, span_of(doc), &a);
    m_want_status(m, &a, 200, NULL);
    buf_fini(&a.body);
    b->versioning = on ? MAP_VERSIONED : MAP_SUSPENDED;
    for (unsigned k = 0; k < M_KEYS; k++)
        for (unsigned i = 0; i < b->count[k]; i++)
            if (b->of[k][i].id[0] == '\0')
                strcpy(b->of[k][i].id, "null");
}

/* Room for one more version. */
static inline void
m_trim(struct model *m)
{
    for (unsigned i = 0; i < M_BUCKETS; i++)
        for (unsigned k = 0; k < M_KEYS; k++) {
            struct m_bucket *b = &m->bucket[i];

            while (b->count[k] + 3 >= M_VERSIONS) {
                unsigned n = m_rnd(m, b->count[k]);
                struct m_answer a;
                char target[200], query[64];

                snprintf(query, sizeof query, "?versionId=%s", b->of[k][n].id);
                m_target(target, sizeof target, b, k, query);
                m_ask(m, "DELETE", target, NULL, (struct span){NULL, 0}, &a);
                m_want_status(m, &a, 204, NULL);
                buf_fini(&a.body);
                m_remove(b, k, n);
            }
        }
}

/* At the start of each world. */
static inline void
model_prepare(struct model *m)
{
    for (unsigned i = 0; i < M_BUCKETS; i++) {
        struct m_answer a;
        char target[64];

        snprintf(target, sizeof target, "/%s", m->bucket[i].name);
        m_ask(m, "PUT", target, NULL, (struct span){"", 0}, &a);
        m_want_status(m, &a, 200, NULL); /* once more is fine */
        buf_fini(&a.body);
    }
    m->made = true;
}

static inline void
model_step(struct model *m)
{
    static const struct {
        unsigned weight;
        void (*run)(struct model *m);
    } ops[] = {
        {26, m_put},         {18, m_get},       {14, m_delete},    {4, m_delete_many},
        {10, m_copy},        {8, m_tags},       {9, m_multipart},  {5, m_list},
        {1, m_list_uploads}, {1, m_versioning}, {4, m_attributes},
    };
    uint32_t die = m_rnd(m, 100);

    m->steps++;
    m_trim(m);
    for (unsigned i = 0; i < ARRAY_LEN(ops); i++) {
        if (die < ops[i].weight) {
            ops[i].run(m);
            m->done[i]++;
            return;
        }
        die -= ops[i].weight;
    }
    abort();
}

/* Every version of everything, and every list. */
static inline void
model_look_at_all(struct model *m)
{
    for (unsigned i = 0; i < M_BUCKETS; i++) {
        struct m_bucket *b = &m->bucket[i];

        for (unsigned k = 0; k < M_KEYS; k++)
            for (unsigned n = 0; n < b->count[k]; n++) {
                const struct m_version *v = &b->of[k][n];
                struct m_answer a;
                char target[200], query[64] = "";

                if (v->marker)
                    continue;
                if (b->versioning != MAP_UNVERSIONED)
                    snprintf(query, sizeof query, "?versionId=%s", v->id);
                m_target(target, sizeof target, b, k, query);
                m_ask(m, "GET", target, NULL, (struct span){NULL, 0}, &a);
                m_want_object(m, b, v, &a, true, 0, v->len);
                buf_fini(&a.body);
            }
        m_list_of(m, b, "", "", false, 1000);
        m_list_of(m, b, "", "", true, 1000);
    }
}

static inline void
model_say(const struct model *m)
{
    printf(
        "puts %llu, reads %llu, deletes %llu + %llu, copies %llu, tags %llu, multipart "
        "%llu, lists %llu + %llu, versioning %llu, attributes %llu\n",
        (unsigned long long)m->done[0], (unsigned long long)m->done[1],
        (unsigned long long)m->done[2], (unsigned long long)m->done[3],
        (unsigned long long)m->done[4], (unsigned long long)m->done[5],
        (unsigned long long)m->done[6], (unsigned long long)m->done[7],
        (unsigned long long)m->done[8], (unsigned long long)m->done[9],
        (unsigned long long)m->done[10]);
}
