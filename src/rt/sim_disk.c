#include "rt/sim_disk.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "rt/sim_disk_internal.h"

/* Beyond this the oldest changes of a file are written back, as a kernel would. */
#define UNSYNCED_COUNT_MAX 4096u
#define UNSYNCED_BYTES_MAX MIB(64)

/* ---- changes ---- */
static struct sim_change *
change_new(struct sim_node *of, enum change_kind kind)
{
    struct sim_change *c = xcalloc(1, sizeof *c);

    c->of = of;
    c->kind = kind;
    list_init(&c->link);
    return c;
}

void
sim_change_free(struct sim_change *c)
{
    list_remove(&c->link);
    sim_node_drop(&c->target);
    free(c->data);
    free(c->name);
    free(c->to);
    free(c);
}

/* Done: it is ordered behind the changes done before. */
static void
change_done(struct sim_change *c)
{
    assert(c->seq == 0); /* done once */
    list_remove(&c->link);
    c->seq = ++c->of->disk->next_seq;
    list_push_back(&c->of->changes, &c->link);
    c->of->change_count++;
    c->of->change_bytes += c->data != NULL ? c->len : 0;
}

void
sim_change_forget(struct sim_change *c)
{
    assert(c->seq > 0);
    assert(c->of->change_count > 0);
    assert(c->data == NULL || c->of->change_bytes >= c->len);
    c->of->change_count--;
    c->of->change_bytes -= c->data != NULL ? c->len : 0;
    sim_change_free(c);
}

void
sim_change_names(const struct sim_change *c, struct sim_names *s)
{
    if (c->kind == CHANGE_UNLINK || c->kind == CHANGE_RENAME)
        sim_names_clear(s, c->name, c->target);
    if (c->kind == CHANGE_LINK)
        sim_names_set(s, c->name, c->target);
    if (c->kind == CHANGE_RENAME)
        sim_names_set(s, c->to, c->target);
}

void
sim_change_bytes(const struct sim_change *c, struct sim_image *m)
{
    if (c->kind == CHANGE_WRITE)
        sim_image_put(m, c->offset, c->data, c->len);
    else if (c->kind == CHANGE_ZERO)
        sim_image_zero(m, c->offset, c->offset + c->len);
}

static void
apply_size(const struct sim_change *c, struct sim_image *m)
{
    if (c->sets_size)
        sim_image_set_size(m, c->size);
}

/* Not for a doomed change: but its place stays known until the cut. */
static void
make_stable(struct sim_change *c)
{
    assert(!c->doomed);
    if (c->of->is_dir) {
        sim_change_names(c, &c->of->dir.stable);
    } else {
        sim_change_bytes(c, &c->of->file.stable);
        apply_size(c, &c->of->file.stable);
    }
    sim_change_forget(c);
}

static void
write_back(struct sim_node *n)
{
    LIST_EACH(&n->changes, at)
    {
        struct sim_change *c = LIST_ENTRY(at, struct sim_change, link);

        if (n->change_count <= UNSYNCED_COUNT_MAX &&
            n->change_bytes <= UNSYNCED_BYTES_MAX)
            return;
        if (!c->doomed)
            make_stable(c);
    }
}

/* ---- nodes ---- */
static struct sim_room *
room_new(struct sim_disk *d)
{
    struct sim_room *r = xcalloc(1, sizeof *r);

    r->size = d->size;
    list_push_back(&d->rooms, &r->link);
    return r;
}

static struct sim_node *
node_new(struct sim_disk *d, struct sim_room *r, bool is_dir)
{
    struct sim_node *n = xcalloc(1, sizeof *n);

    n->disk = d;
    n->room = r;
    n->refs = 1;
    n->is_dir = is_dir;
    n->id = ++d->next_id;
    list_init(&n->changes);
    list_init(&n->in_flight);
    list_push_back(&d->nodes, &n->of_disk);
    return n;
}

struct sim_node *
sim_node_ref(struct sim_node *n)
{
    assert(n->refs > 0);
    n->refs++;
    return n;
}

void
sim_node_drop(struct sim_node **np)
{
    struct sim_node *n = *np;

    *np = NULL;
    if (n == NULL)
        return;
    assert(n->refs > 0);
    if (--n->refs > 0)
        return;
    assert(n->room != NULL);
    LIST_EACH(&n->changes, at)
    {
        sim_change_forget(LIST_ENTRY(at, struct sim_change, link));
    }
    assert(list_empty(&n->in_flight)); /* a writer holds a reference */
    if (n->is_dir) {
        sim_names_fini(&n->dir.now);
        sim_names_fini(&n->dir.stable);
    } else {
        assert(n->change_count == 0);
        assert(n->room->used >= n->file.allocated);
        n->room->used -= n->file.allocated;
        sim_image_fini(&n->file.now);
        sim_image_fini(&n->file.stable);
    }
    list_remove(&n->of_disk);
    free(n);
}

bool
sim_node_is_dir(const struct sim_node *n)
{
    return n->is_dir;
}

uint64_t
sim_node_id(const struct sim_node *n)
{
    return n->id;
}

void
sim_node_set_mode(struct sim_node *n, unsigned mode)
{
    n->mode = mode & 0777;
}

unsigned
sim_node_mode(const struct sim_node *n)
{
    return n->mode;
}

bool
sim_node_is_synced(const struct sim_node *n)
{
    return list_empty(&n->changes) && list_empty(&n->in_flight);
}

struct sim_disk *
sim_disk_new(uint64_t bytes)
{
    struct sim_disk *d = xcalloc(1, sizeof *d);

    d->size = bytes;
    list_init(&d->nodes);
    list_init(&d->rooms);
    d->root = node_new(d, room_new(d), true);
    return d;
}

void
sim_disk_free(struct sim_disk **dp)
{
    struct sim_disk *d = *dp;

    *dp = NULL;
    if (d == NULL)
        return;
    sim_node_drop(&d->root);
    assert(list_empty(&d->nodes)); /* else a handle is still open */
    LIST_EACH(&d->rooms, at)
    {
        list_remove(at);
        free(LIST_ENTRY(at, struct sim_room, link));
    }
    free(d);
}

struct sim_node *
sim_disk_root(struct sim_disk *d)
{
    return d->root;
}

struct sim_node *
sim_disk_orphan(struct sim_disk *d, const void *data, uint64_t len)
{
    struct sim_node *n = node_new(d, d->root->room, false);

    if (len > 0)
        sim_image_put(&n->file.now, 0, data, len);
    n->file.now.size = len;
    return n;
}

struct sim_node *
sim_disk_mount(struct sim_disk *d, const char *name)
{
    struct sim_node *n = node_new(d, room_new(d), true);

    assert(sim_names_find(&d->root->dir.now, name) == NULL);
    sim_names_set(&d->root->dir.now, name, n);
    sim_names_set(&d->root->dir.stable, name, n);
    sim_node_drop(&n);
    return sim_names_find(&d->root->dir.now, name);
}

uint64_t
sim_node_used(const struct sim_node *n)
{
    return n->room->full ? n->room->size : n->room->used;
}

uint64_t
sim_node_room(const struct sim_node *n)
{
    return n->room->size;
}

void
sim_node_fill(struct sim_node *n, bool full)
{
    n->room->full = full;
}

/* ---- directories ---- */
struct sim_node *
sim_dir_find(const struct sim_node *dir, const char *name)
{
    assert(dir->is_dir);
    return sim_names_find(&dir->dir.now, name);
}

static void
dir_change(struct sim_node *dir, enum change_kind kind, const char *name, const char *to,
           struct sim_node *target)
{
    struct sim_change *c = change_new(dir, kind);

    c->name = xstrdup(name);
    c->to = to != NULL ? xstrdup(to) : NULL;
    c->target = sim_node_ref(target);
    sim_change_names(c, &dir->dir.now);
    change_done(c);
    write_back(dir);
}

int
sim_dir_add(struct sim_node *dir, const char *name, bool is_dir, struct sim_node **out)
{
    struct sim_node *n;

    *out = NULL;
    assert(dir->is_dir);
    if (sim_names_find(&dir->dir.now, name) != NULL)
        return -EEXIST;
    n = node_new(dir->disk, dir->room, is_dir);
    dir_change(dir, CHANGE_LINK, name, NULL, n);
    *out = n;
    sim_node_drop(&n);
    return 0;
}

int
sim_dir_unlink(struct sim_node *dir, const char *name)
{
    struct sim_node *n = sim_names_find(&dir->dir.now, name);

    if (n == NULL)
        return -ENOENT;
    if (n->is_dir && n->dir.now.count > 0)
        return -ENOTEMPTY;
    dir_change(dir, CHANGE_UNLINK, name, NULL, n);
    return 0;
}

int
sim_dir_rename(struct sim_node *dir, const char *from, const char *to)
{
    struct sim_node *n = sim_names_find(&dir->dir.now, from);
    struct sim_node *old = sim_names_find(&dir->dir.now, to);

    if (n == NULL)
        return -ENOENT;
    if (n == old)
        return 0;
    if (old != NULL && old->is_dir)
        return n->is_dir ? -ENOTEMPTY : -EISDIR;
    if (old != NULL && n->is_dir)
        return -ENOTDIR;
    dir_change(dir, CHANGE_RENAME, from, to, n);
    return 0;
}

unsigned
sim_dir_count(const struct sim_node *dir)
{
    assert(dir->is_dir);
    return dir->dir.now.count;
}

const char *
sim_dir_name(const struct sim_node *dir, unsigned i)
{
    assert(i < dir->dir.now.count);
    return dir->dir.now.at[i].name;
}

/* ---- files ---- */
uint64_t
sim_file_size(const struct sim_node *f)
{
    assert(!f->is_dir);
    return f->file.now.size;
}

uint64_t
sim_file_read(const struct sim_node *f, uint64_t offset, void *buf, uint64_t len)
{
    const struct sim_image *m = &f->file.now;
    uint64_t n, have;

    assert(!f->is_dir);
    if (offset >= m->size)
        return 0;
    n = MIN(len, m->size - offset);
    have = offset < m->room ? MIN(n, m->room - offset) : 0;
    if (have > 0)
        memcpy(buf, m->at + offset, have);
    memset((char *)buf + have, 0, n - have);
    return n;
}

int
sim_file_reserve(struct sim_node *f, uint64_t end)
{
    struct sim_room *r = f->room;

    assert(!f->is_dir);
    assert(r->used >= f->file.allocated);
    if (end <= f->file.allocated)
        return 0;
    if (r->full || r->used + (end - f->file.allocated) > r->size)
        return -ENOSPC;
    r->used += end - f->file.allocated;
    f->file.allocated = end;
    assert(r->used <= r->size);
    return 0;
}

struct sim_change *
sim_write_begin(struct sim_node *f, uint64_t offset, const void *data, uint64_t len)
{
    struct sim_change *c = change_new(f, CHANGE_WRITE);

    assert(!f->is_dir);
    assert(len > 0);
    sim_node_ref(f);
    c->offset = offset;
    c->len = len;
    c->data = xmalloc(len);
    memcpy(c->data, data, len);
    c->sum = hash_xxh3(data, len, 0);
    list_push_back(&f->in_flight, &c->link);
    return c;
}

void
sim_change_write(struct sim_change *c)
{
    struct sim_image *m = &c->of->file.now;
    uint64_t end = c->offset + c->len;
    uint64_t first = align_down(c->offset, SIM_SECTOR), last = align_up(end, SIM_SECTOR);

    sim_image_put(m, c->offset, c->data, c->len);
    sim_image_reach(m, last);
    if (end > m->size) {
        c->sets_size = true;
        c->size = m->size = end;
    }
    c->data = xrealloc(c->data, last - first);
    memcpy(c->data, m->at + first, last - first);
    c->offset = first;
    c->len = last - first;
    change_done(c);
}

int
sim_write_end(struct sim_change *c, const void *data)
{
    struct sim_node *f = c->of;
    int rc = sim_file_reserve(f, c->offset + c->len);

    assert(hash_xxh3(data, c->len, 0) ==
           c->sum); /* else the buffer changed during the write */
    if (rc == 0)
        sim_change_write(c);
    else
        sim_change_free(c);
    write_back(f);
    sim_node_drop(&f);
    return rc;
}

int
sim_file_allocate(struct sim_node *f, uint64_t offset, uint64_t len)
{
    int rc = sim_file_reserve(f, offset + len);

    if (rc == 0 && offset + len > f->file.now.size)
        sim_file_truncate(f, offset + len);
    return rc;
}

void
sim_file_punch(struct sim_node *f, uint64_t offset, uint64_t len)
{
    struct sim_change *c = change_new(f, CHANGE_ZERO);

    assert(!f->is_dir);
    c->offset = offset;
    c->len = len;
    sim_change_bytes(c, &f->file.now);
    change_done(c);
    write_back(f);
}

void
sim_file_truncate(struct sim_node *f, uint64_t size)
{
    struct sim_change *c = change_new(f, CHANGE_SIZE);

    assert(!f->is_dir);
    c->sets_size = true;
    c->size = size;
    c->offset = MIN(size, f->file.now.size);
    c->len = MAX(size, f->file.now.size) - c->offset;
    if (size < f->file.allocated) {
        f->room->used -= f->file.allocated - size;
        f->file.allocated = size;
    }
    apply_size(c, &f->file.now);
    change_done(c);
    write_back(f);
}

char *
sim_file_bytes_now(struct sim_node *f)
{
    sim_image_reach(&f->file.now, f->file.now.size);
    return f->file.now.at;
}

/* ---- syncs ---- */
uint64_t
sim_sync_begin(const struct sim_node *n)
{
    return n->disk->next_seq;
}

void
sim_sync_end(struct sim_node *n, uint64_t mark)
{
    uint64_t last = 0;

    assert(mark <= n->disk->next_seq);
    LIST_EACH(&n->changes, at)
    {
        struct sim_change *c = LIST_ENTRY(at, struct sim_change, link);

        assert(c->seq > last); /* in order */
        last = c->seq;
        if (c->seq > mark)
            break;
        if (!c->doomed)
            make_stable(c);
    }
}

void
sim_sync_fail(struct sim_node *n, uint64_t mark, const struct sim_lottery *l)
{
    LIST_EACH(&n->changes, at)
    {
        struct sim_change *c = LIST_ENTRY(at, struct sim_change, link);

        if (c->seq > mark)
            break;
        if (!c->doomed && l->draw(l->arg) % 2 == 0)
            make_stable(c);
        else
            c->doomed = true;
    }
}
