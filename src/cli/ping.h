/* ping: is a server there, and does it serve? What ping, ready and doctor share. */
#pragma once
#include "cli/session.h"

/* A page of ours. Any answer is one, with its status: other servers have no such page. */
enum err ping_ask(struct session *s, const char *path, int *status) MUST_CHECK;
/* ERR_OK: it serves. ERR_UNAVAILABLE: it starts or drains. ERR_NOT_IMPLEMENTED: it is no Forebay. */
enum err ping_ready(struct session *s) MUST_CHECK;
