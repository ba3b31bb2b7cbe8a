/* MD5 in lanes beside OpenSSL's, on every kernel: how many streams, how long, and where they are cut is in the input. */
#include <assert.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <string.h>

#include "base/md5.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STREAMS_MAX = 40, HEAD = 3 };

/* Each stream: two bytes of length, one that says where it is cut (in 255ths; 255: not at all). Its bytes are the input's. */
struct stream {
    struct md5 md5;
    struct md5_job job;
    const uint8_t *at;
    size_t len, cut;
    unsigned char out[16];
};

static void
run_halves(struct stream *s, unsigned count, bool second)
{
    struct md5_job *list = NULL;

    for (unsigned i = 0; i < count; i++) {
        s[i].job = (struct md5_job){.next = list,
                                    .md5 = &s[i].md5,
                                    .data = s[i].at + (second ? s[i].cut : 0),
                                    .len = second ? s[i].len - s[i].cut : s[i].cut,
                                    .out = second ? s[i].out : NULL};
        list = &s[i].job;
    }
    md5_run(list);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct stream streams[STREAMS_MAX];
    unsigned kernels, count = 0;
    const struct md5_kernel *const *all = md5_kernels(&kernels);

    for (; count < STREAMS_MAX && size >= HEAD; count++, data += HEAD, size -= HEAD) {
        struct stream *s = &streams[count];

        s->len = (size_t)data[0] | (size_t)data[1] << 8;
        s->cut = data[2];
    }
    for (unsigned i = 0; i < count; i++) {
        struct stream *s = &streams[i];

        s->len = s->len < size ? s->len : size;
        s->cut = s->len * s->cut / 255;
        s->at = data + (size - s->len);
    }
    for (unsigned k = 0; k < kernels; k++) {
        bool can = md5_use(all[k]->name);

        assert(can);
        for (unsigned i = 0; i < count; i++)
            md5_init(&streams[i].md5);
        run_halves(streams, count, false);
        run_halves(streams, count, true);
        for (unsigned i = 0; i < count; i++) {
            unsigned char want[16];
            int good =
                EVP_Digest(streams[i].at, streams[i].len, want, NULL, EVP_md5(), NULL);

            assert(good == 1);
            assert(memcmp(streams[i].out, want, 16) == 0);
        }
    }
    return 0;
}
