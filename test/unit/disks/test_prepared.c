/* What was prepared on one disk and not resolved: nothing that may have been answered is aborted, and nothing that was
 * refused stays. Protects D1 and D4 with copies. */
#include "rig.h"

#include "disks/rebalance.h"

#define LEN  4000u
#define SEED 77

static uint64_t
prepared_on(struct rig *g, unsigned slot)
{
    struct store_stat st;

    store_stat(g->ds->slots[slot].at.store, &st);
    return st.prepared;
}

/* After a start no caller waits for it. */
static bool
gets_resolved(struct rig *g, const char *path)
{
    unsigned slot = 0;

    while (strcmp(g->ds->slots[slot].path, path) != 0)
        slot++;
    for (unsigned i = 0; i < PATIENCE_MS / 10 && prepared_on(g, slot) > 0; i++)
        if (rt_sleep_ms(10) != ERR_OK)
            break;
    return prepared_on(g, slot) == 0;
}

static bool
has_content(struct store *d, const struct disks_key *k, const struct content_id *content)
{
    struct entry entry;

    return store_lookup(d, &k->at, &entry, NULL) == ERR_OK &&
           memcmp(&entry.content, content, sizeof *content) == 0;
}

/* A write as it is when the power goes, or the copy refuses, behind the owner's commit: acknowledged, and prepared on the copy.
 * p->at[0] is the owner, p->at[1] the copy. */
static void
write_half(struct rig *g, const struct disks_key *k, enum store_versioning versioning,
           struct places *p, struct entry *entry)
{
    struct object_meta meta = {.mtime_ms = 1, .versioning = (uint8_t)versioning};
    struct store_writer *own = NULL, *copy = NULL;
    struct content_id content;
    char *data = xmalloc(LEN);
    struct store *owner;

    rig_fill(data, LEN, SEED);
    places_of(g->ds, k, p);
    REQUIRE(p->placed == 2);
    owner = g->ds->slots[p->at[0]].at.store;
    REQUIRE(store_write_begin(owner, &k->at, STORE_NATIVE, LEN, &own, &g->eb) == ERR_OK);
    content = *store_writer_content(own);
    REQUIRE(store_write_begin_as(g->ds->slots[p->at[1]].at.store, &k->at, LEN, &content,
                                 &copy, &g->eb) == ERR_OK);
    CHECK(store_write(own, data, LEN, &g->eb) == ERR_OK);
    CHECK(store_write(copy, data, LEN, &g->eb) == ERR_OK);
    CHECK(store_prepare(&copy, &meta, NULL, &g->eb) == ERR_OK);
    CHECK(store_commit(&own, &meta, NULL, entry, &g->eb) == ERR_OK);
    CHECK_U64(prepared_on(g, p->at[1]), 1);
    free(data);
}

/* A pass came to something that it could not reconcile. */
static bool
pass_failed(struct rig *g)
{
    struct disks_status *st = xcalloc(1, sizeof *st);
    bool failed = false;

    for (unsigned i = 0; i < PATIENCE_MS / 10 && !failed; i++) {
        disks_status(g->ds, st);
        failed = st->failed > 0 && !st->converged;
        if (!failed && rt_sleep_ms(10) != ERR_OK)
            break;
    }
    free(st);
    return failed;
}

/* ---- at a start ---- */

static void
nobody_answers(void *arg)
{
    struct rig *g = arg;
    struct disks_key k = rig_key(g, "key");
    struct places p;
    struct entry entry;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    CHECK(rig_converged(g));
    write_half(g, &k, STORE_UNVERSIONED, &p, &entry);
    disks_close(&g->ds);

    prepared_unreachable = (uint64_t)1 << p.at[0];
    REQUIRE(rig_open(g, 3) == ERR_OK);
    CHECK(pass_failed(g)); /* told, not converged over */
    CHECK_U64(prepared_on(g, p.at[1]), 1);
    CHECK(rig_get(g, "key", LEN, SEED) == ERR_OK);
    disks_close(&g->ds);
    prepared_unreachable = 0;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    CHECK(gets_resolved(g, g->path[p.at[1]]));
    CHECK(rig_converged(g));
    CHECK(has_content(g->ds->slots[p.at[1]].at.store, &k, &entry.content));
    disks_close(&g->ds);
}

/* The owner is here and says so, even when another disk is away. */
static void
another_is_away(void *arg)
{
    struct rig *g = arg;
    struct disks_key k = rig_key(g, "key");
    struct places p;
    struct entry entry;
    unsigned other;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    CHECK(rig_converged(g));
    write_half(g, &k, STORE_UNVERSIONED, &p, &entry);
    other = 3u - p.at[0] - p.at[1]; /* the slot that is neither */
    disks_close(&g->ds);
    REQUIRE(rig_open_without(g, 7u & ~(1u << other), g->path[other]) == ERR_OK);
    CHECK(gets_resolved(g, g->path[p.at[1]]));
    CHECK(rig_converged(g));
    CHECK(rig_get(g, "key", LEN, SEED) == ERR_OK);
    disks_close(&g->ds);
}

/* ---- in a pass ---- */

/* Another version is the current one by now. */
static void
older_version(void *arg)
{
    struct rig *g = arg;
    struct disks_key k = rig_key(g, "key");
    struct object_meta meta = {.mtime_ms = 2, .versioning = STORE_VERSIONED};
    struct disks_writer *w = NULL;
    struct version born;
    struct places p;
    struct entry entry, found;
    bool current;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    CHECK(rig_converged(g));
    write_half(g, &k, STORE_VERSIONED, &p, &entry);
    born = entry_born(&entry);
    REQUIRE(disks_write_begin(g->ds, &k, STORE_NATIVE, 2, &w, &g->eb) == ERR_OK);
    CHECK(disks_write(w, "hi", 2, &g->eb) == ERR_OK);
    CHECK(disks_commit(&w, &meta, NULL, NULL, &g->eb) == ERR_OK);
    CHECK(set_diverge(g->ds, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK_U64(prepared_on(g, p.at[1]), 0);
    CHECK_U64(disks_copied_bytes(g->ds), 0); /* decided, not copied once more */
    CHECK(store_version_find(g->ds->slots[p.at[1]].at.store, &k.at, &born, &found,
                             &current, &g->eb) == ERR_OK);
    CHECK(memcmp(&found.content, &entry.content, sizeof entry.content) == 0 && !current);
    disks_close(&g->ds);
}

/* Refused by its owner, and the copy was not reached: the client that began the upload can end it. */
static void
refused(void *arg)
{
    struct rig *g = arg;
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct disks_key k = rig_key(g, "multi");
    struct object_meta meta = {.mtime_ms = 1};
    struct store_upload *listed;
    struct store_part *parts;
    struct disks_writer *w;
    struct content_id content;
    struct upload_id u;
    struct places p;
    uint32_t count;
    bool more;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    CHECK(rig_converged(g));
    REQUIRE(disks_upload_begin(g->ds, &k, &meta, &u, &g->eb) == ERR_OK);
    REQUIRE(disks_part_begin(g->ds, &k, &u, 1, 4, &w, &g->eb) == ERR_OK);
    CHECK(disks_write(w, "abcd", 4, &g->eb) == ERR_OK);
    CHECK(disks_part_commit(&w, &meta, &g->eb) == ERR_OK);
    CHECK(disks_part_list(g->ds, &k, &u, 0, 10, a, &parts, &count, &more, &g->eb) ==
          ERR_OK);
    REQUIRE(count == 1);
    places_of(g->ds, &k, &p);
    content = store_mint_id(g->ds->slots[p.at[0]].at.store);
    CHECK(store_upload_prepare(g->ds->slots[p.at[1]].at.store, &k.at, &u, parts, 1,
                               &content, &meta, NULL, &g->eb) == ERR_OK);
    CHECK(disks_upload_abort(g->ds, &k, &u, &g->eb) == ERR_BUSY);
    CHECK(set_diverge(g->ds, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK_U64(prepared_on(g, p.at[1]), 0);
    CHECK(disks_upload_abort(g->ds, &k, &u, &g->eb) == ERR_OK);
    CHECK(disks_upload_list(g->ds, RIG_BUCKET, 2, SPAN(""), NULL, 10, a, &listed, &count,
                            &more, &g->eb) == ERR_OK);
    CHECK_U64(count, 0);
    disks_close(&g->ds);
    arena_free(&a);
}

/* ---- a disk goes ---- */

/* A key whose owner does not hold the node's state (the first disk does). */
static struct disks_key
key_of_another(struct rig *g, char text[24])
{
    struct disks_key k;
    struct places p;

    for (unsigned i = 0;; i++) {
        snprintf(text, 24, "key-%u", i);
        k = rig_key(g, text);
        places_of(g->ds, &k, &p);
        if (p.at[0] != 0)
            return k;
    }
}

/* The owner goes out and is removed, and no pass could resolve it in between: what it had answered stays. */
static void
giver_is_removed(void *arg)
{
    struct rig *g = arg;
    struct places p;
    struct entry entry;
    char text[24];
    struct disks_key k;
    struct store *copy, *third;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    CHECK(rig_converged(g));
    k = key_of_another(g, text);
    write_half(g, &k, STORE_UNVERSIONED, &p, &entry);
    copy = g->ds->slots[p.at[1]].at.store;
    third = g->ds->slots[3u - p.at[0] - p.at[1]].at.store;
    atomic_store(&g->ds->slots[p.at[1]].state,
                 REPLICA_FROZEN); /* for the resolving pass */
    replica_take_out(g->ds, p.at[0]);
    CHECK_U64(prepared_on(g, p.at[1]), 1);
    CHECK(disks_remove(g->ds, g->path[p.at[0]], true, &g->eb) == ERR_OK);
    CHECK_U64(prepared_on(g, p.at[1]), 0);
    CHECK(
        has_content(copy, &k, &entry.content) ||
        has_content(third, &k, &entry.content)); /* a pass moves it off the frozen one */
    disks_close(&g->ds);
    REQUIRE(rig_open(g, 7u & ~(1u << p.at[0])) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK(rig_get(g, text, LEN, SEED) == ERR_OK);
    disks_close(&g->ds);
}

/* In use, it answers until it has gone: by force, too, what it had answered stays. */
static void
removed_by_force(void *arg)
{
    struct rig *g = arg;
    struct places p;
    struct entry entry;
    char text[24];
    struct disks_key k;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    CHECK(rig_converged(g));
    k = key_of_another(g, text);
    write_half(g, &k, STORE_UNVERSIONED, &p, &entry);
    CHECK(disks_remove(g->ds, g->path[p.at[0]], true, &g->eb) == ERR_OK);
    CHECK_U64(prepared_on(g, p.at[1]), 0);
    CHECK(rig_converged(g));
    CHECK(rig_get(g, text, LEN, SEED) == ERR_OK);
    disks_close(&g->ds);
}

/* Prepared on one disk by hand, without an order. */
static void
prepare_alone(struct rig *g, const struct disks_key *k, struct store *d,
              struct content_id *content)
{
    struct object_meta meta = {.mtime_ms = 1};
    struct store_writer *w = NULL;

    *content = store_mint_id(d);
    REQUIRE(store_write_begin_as(d, &k->at, 4, content, &w, &g->eb) == ERR_OK);
    CHECK(store_write(w, "abcd", 4, &g->eb) == ERR_OK);
    CHECK(store_prepare(&w, &meta, NULL, &g->eb) == ERR_OK);
}

/* Which coordinator, by the prepare records on a disk. */
static struct store_prepared
prepared_first(struct rig *g, unsigned slot, struct arena *a)
{
    struct store_prepared *found = NULL;
    uint32_t count = 0;
    bool more;

    CHECK(store_prepared(g->ds->slots[slot].at.store, NULL, 1, a, &found, &count, &more,
                         &g->eb) == ERR_OK);
    CHECK_U64(count, 1);
    return count > 0 ? found[0] : (struct store_prepared){0};
}

/* Two prepared versions without an outcome, of this node and of another one. A start aborts its own; the other stays past
 * starts and passes until its coordinator's outcome comes. */
static void
of_another_node(void *arg)
{
    const struct coordinator other = {2, 1};
    struct rig *g = arg;
    struct disks_key mine = rig_key(g, "mine"), theirs = rig_key(g, "theirs");
    struct object_meta meta = {.mtime_ms = 1};
    struct content_id content, own;
    struct store_prepared left;
    struct store_writer *w = NULL;
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct store *d;
    struct version v;
    struct entry entry;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    CHECK(rig_converged(g));
    d = g->ds->slots[1].at.store;
    prepare_alone(g, &mine, d, &own);
    content = store_mint_id(d);
    REQUIRE(store_write_begin_as(d, &theirs.at, 4, &content, &w, &g->eb) == ERR_OK);
    CHECK(store_write(w, "abcd", 4, &g->eb) == ERR_OK);
    CHECK(store_prepare(&w, &meta, &other, &g->eb) == ERR_OK);
    CHECK_U64(prepared_on(g, 1), 2);
    for (unsigned start = 0; start < 3; start++) {
        disks_close(&g->ds);
        REQUIRE(rig_open(g, 3) == ERR_OK);
        CHECK(set_diverge(g->ds, &g->eb) == ERR_OK); /* a pass, too */
        CHECK(rig_converged(g));
        CHECK_U64(prepared_on(g, 1), 1);
        left = prepared_first(g, 1, a);
        CHECK(memcmp(&left.content, &content, sizeof content) == 0);
        CHECK_U64(left.coordinator.node, 2);
    }
    d = g->ds->slots[1].at.store;
    v = (struct version){disks_map_epoch(g->ds) + 1, 1}; /* as the other owner gave it */
    CHECK(store_commit_prepared(d, &theirs.at, &content, &v, &g->eb) == ERR_OK);
    CHECK_U64(prepared_on(g, 1), 0);
    CHECK(has_content(d, &theirs, &content));
    CHECK(set_diverge(g->ds, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK(disks_lookup(g->ds, &theirs, &entry, &g->eb) == ERR_OK);
    arena_free(&a);
    disks_close(&g->ds);

    /* The other owner's version was of a later map: this start begins behind it. */
    REQUIRE(rig_open(g, 3) == ERR_OK);
    CHECK(disks_map_epoch(g->ds) >= v.epoch);
    CHECK(rig_put_if(g, "theirs", 9, 5, NULL, &entry) == ERR_OK);
    CHECK(version_order(&entry.version, &v) > 0);
    CHECK(rig_converged(g));
    CHECK(rig_get(g, "theirs", 9, 5) == ERR_OK);
    disks_close(&g->ds);
}

/* It is committed where another replica here already has it as a version of the key. */
static void
of_another_node_and_committed(void *arg)
{
    const struct coordinator other = {2, 1};
    struct rig *g = arg;
    struct disks_key k = rig_key(g, "key");
    struct object_meta meta = {.mtime_ms = 1};
    struct store_writer *own = NULL, *copy = NULL;
    struct content_id content;
    struct places p;
    struct entry entry;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    CHECK(rig_converged(g));
    places_of(g->ds, &k, &p);
    REQUIRE(store_write_begin(g->ds->slots[p.at[0]].at.store, &k.at, STORE_NATIVE, 4,
                              &own, &g->eb) == ERR_OK);
    content = *store_writer_content(own);
    REQUIRE(store_write_begin_as(g->ds->slots[p.at[1]].at.store, &k.at, 4, &content,
                                 &copy, &g->eb) == ERR_OK);
    CHECK(store_write(own, "abcd", 4, &g->eb) == ERR_OK);
    CHECK(store_write(copy, "abcd", 4, &g->eb) == ERR_OK);
    CHECK(store_prepare(&copy, &meta, &other, &g->eb) == ERR_OK);
    CHECK(store_commit(&own, &meta, NULL, &entry, &g->eb) == ERR_OK);
    disks_close(&g->ds);

    REQUIRE(rig_open(g, 3) == ERR_OK);
    CHECK(gets_resolved(g, g->path[p.at[1]]));
    CHECK(has_content(g->ds->slots[p.at[1]].at.store, &k, &content));
    disks_close(&g->ds);
}

/* The map's epoch rises while the node serves: every disk has it before a version does, and a lower one is ignored. */
static void
epoch_rises(void *arg)
{
    struct rig *g = arg;
    uint64_t first;
    struct store_identity is;
    struct entry before, after;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    first = disks_map_epoch(g->ds);
    CHECK(rig_put_if(g, "key", 4, 1, NULL, &before) == ERR_OK);
    CHECK(disks_raise_map_epoch(g->ds, first + 1000, &g->eb) == ERR_OK);
    CHECK(disks_raise_map_epoch(g->ds, first + 3, &g->eb) == ERR_OK);
    CHECK_U64(disks_map_epoch(g->ds), first + 1000);
    for (unsigned i = 0; i < 3; i++) {
        CHECK(store_identify(g->path[i], &is, &g->eb) == ERR_OK);
        CHECK_U64(is.map_epoch, first + 1000);
        CHECK_U64(is.epoch, disks_starts(g->ds)); /* the count of starts stays */
    }
    CHECK(rig_put_if(g, "key", 4, 2, NULL, &after) == ERR_OK);
    CHECK_U64(after.version.epoch, first + 1000);
    CHECK(version_order(&after.version, &before.version) > 0);
    CHECK(rig_converged(g));
    disks_close(&g->ds);

    REQUIRE(rig_open(g, 7) == ERR_OK);
    CHECK_U64(disks_map_epoch(g->ds), first + 1001);
    CHECK(rig_put_if(g, "key", 4, 3, NULL, &before) == ERR_OK);
    CHECK(version_order(&before.version, &after.version) > 0);
    disks_close(&g->ds);
}

/* What was prepared when the owner of the key was out already is not of its order: another one refused it. */
static void
not_of_its_order(void *arg)
{
    struct rig *g = arg;
    struct places before, p;
    struct content_id content;
    struct entry entry;
    char text[24];
    struct disks_key k;
    struct store *copy;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    CHECK(rig_converged(g));
    k = key_of_another(g, text);
    places_of(g->ds, &k, &before);
    replica_take_out(g->ds, before.at[0]);
    CHECK(rig_converged(g));
    places_of(g->ds, &k, &p);
    copy = g->ds->slots[p.at[1]].at.store;
    prepare_alone(g, &k, copy, &content);
    CHECK(set_diverge(g->ds, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK_U64(prepared_on(g, p.at[1]), 0);
    CHECK(disks_lookup(g->ds, &k, &entry, &g->eb) == ERR_NOT_FOUND);
    disks_close(&g->ds);
}

/* The same where objects may lie on that disk alone: it may know of them, but not of what came later. */
static void
not_known_to_who_is_missed(void *arg)
{
    struct rig *g = arg;
    struct places before, p;
    struct content_id content;
    char text[24];
    struct disks_key k;
    struct store *copy;

    REQUIRE(rig_open(g, 7) == ERR_OK);
    CHECK(rig_converged(g));
    k = key_of_another(g, text);
    places_of(g->ds, &k, &before);
    rebalancer_hold(g->ds, 1);
    CHECK(set_diverge(g->ds, &g->eb) == ERR_OK);
    replica_take_out(g->ds, before.at[0]);
    CHECK(g->ds->slots[before.at[0]].missed);
    places_of(g->ds, &k, &p);
    copy = g->ds->slots[p.at[1]].at.store;
    prepare_alone(g, &k, copy, &content);
    CHECK(gets_resolved(
        g, g->path[p.at[1]])); /* aborted, since every disk that could know is gone */
    CHECK(!has_content(copy, &k, &content));

    atomic_store(&g->ds->slots[p.at[1]].state, REPLICA_FROZEN); /* for passes */
    prepare_alone(g, &k, copy, &content);
    CHECK(disks_remove(g->ds, g->path[before.at[0]], true, &g->eb) == ERR_OK);
    CHECK(!has_content(copy, &k, &content));
    rebalancer_hold(g->ds, -1);
    disks_close(&g->ds);
}

/* A disk that takes no writes is not asked to give anything up: it would fail each pass. */
static void
frozen(void *arg)
{
    struct rig *g = arg;
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct disks_key k = rig_key(g, "copied");
    struct store_upload *listed;
    struct upload_id u;
    struct entry entry;
    uint32_t count;
    bool more;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    REQUIRE(rig_put_if(g, "there", 4, 1, NULL, &entry) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK(store_replica_begin(g->ds->slots[1].at.store, &k.at, &entry, &u, &g->eb) ==
          ERR_OK);
    atomic_store(&g->ds->slots[1].state, REPLICA_FROZEN);
    CHECK(set_diverge(g->ds, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
    CHECK(store_replica_list(g->ds->slots[1].at.store, RIG_BUCKET, SPAN(""), NULL, 10, a,
                             &listed, &count, &more, &g->eb) == ERR_OK);
    CHECK_U64(count, 1);
    disks_close(&g->ds);
    arena_free(&a);
}

static void
test_a_start_waits_for_who_gives_no_answer(void)
{
    rig_run(nobody_answers, &(struct rig){.copies = 2});
}
static void
test_the_owner_is_believed_whoever_is_away(void)
{
    rig_run(another_is_away, &(struct rig){.copies = 2});
}
static void
test_an_older_version_by_now(void)
{
    rig_run(older_version, &(struct rig){.copies = 2});
}
static void
test_refused_and_not_heard(void)
{
    rig_run(refused, &(struct rig){.copies = 2});
}
static void
test_who_ordered_it_is_out_and_removed(void)
{
    rig_run(giver_is_removed, &(struct rig){.copies = 2});
}
static void
test_who_ordered_it_is_removed_by_force(void)
{
    rig_run(removed_by_force, &(struct rig){.copies = 2});
}
static void
test_a_start_leaves_what_another_node_prepared(void)
{
    rig_run(of_another_node, &(struct rig){.copies = 2});
}
static void
test_what_another_node_committed_here_is_committed(void)
{
    rig_run(of_another_node_and_committed, &(struct rig){.copies = 2});
}
static void
test_the_maps_epoch_rises(void)
{
    rig_run(epoch_rises, &(struct rig){.copies = 2});
}
static void
test_who_was_out_before_did_not_order_it(void)
{
    rig_run(not_of_its_order, &(struct rig){.copies = 2});
}
static void
test_who_is_missed_does_not_know_what_came_later(void)
{
    rig_run(not_known_to_who_is_missed, &(struct rig){.copies = 2});
}
static void
test_a_frozen_disk_gives_nothing_up(void)
{
    rig_run(frozen, &(struct rig){.copies = 2});
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR);
    RUN(test_a_start_waits_for_who_gives_no_answer);
    RUN(test_the_owner_is_believed_whoever_is_away);
    RUN(test_an_older_version_by_now);
    RUN(test_refused_and_not_heard);
    RUN(test_who_ordered_it_is_out_and_removed);
    RUN(test_who_ordered_it_is_removed_by_force);
    RUN(test_who_was_out_before_did_not_order_it);
    RUN(test_who_is_missed_does_not_know_what_came_later);
    RUN(test_a_frozen_disk_gives_nothing_up);
    RUN(test_a_start_leaves_what_another_node_prepared);
    RUN(test_what_another_node_committed_here_is_committed);
    RUN(test_the_maps_epoch_rises);
    return check_done();
}
