/* stand: an object service on a folder: a disk, buckets, backends; no HTTP. */
#pragma once
#include "check.h"

#include "object/object.h"

struct stand {
    /* Given. */
    const char *path;
    struct cloud_options cloud_options;
    /* Open. */
    struct rt_dir *dir, *meta_dir;
    struct disks *disks;
    struct meta *meta;
    struct map_service *map;
    struct cloud *cloud;
    struct object_service *object;
    struct errbuf eb;
};

static inline void
stand_open(struct stand *s)
{
    struct store_options d = {.cluster_id = {7}, .node = 1, .epoch = 1};
    struct object_options o = {.node = 1};

    REQUIRE(rt_dir_open(s->path, &s->dir, &s->eb) == ERR_OK);
    REQUIRE(rt_dir_make(s->dir, "meta", 0700, &s->eb) == ERR_OK);
    REQUIRE(rt_dir_open_at(s->dir, "meta", &s->meta_dir, &s->eb) == ERR_OK);
    REQUIRE(meta_open_embedded(s->meta_dir, &s->meta, &s->eb) == ERR_OK);
    REQUIRE(disks_open_one(s->path, &d, &s->disks, &s->eb) == ERR_OK);
    REQUIRE(map_start(s->meta, &s->map, &s->eb) == ERR_OK);
    REQUIRE(cloud_start(&s->cloud_options, &s->cloud, &s->eb) == ERR_OK);
    o.disks = s->disks;
    o.map = s->map;
    o.cloud = s->cloud;
    REQUIRE(object_start(&o, &s->object, &s->eb) == ERR_OK);
}

/* Snapshots of buckets that the test has are dropped before. */
static inline void
stand_close(struct stand *s)
{
    object_stop(&s->object); /* which looks whether all that was on its way has ended */
    cloud_stop(&s->cloud);
    map_stop(&s->map);
    disks_close(&s->disks);
    meta_close(&s->meta);
    rt_dir_close(&s->meta_dir);
    rt_dir_close(&s->dir);
}
