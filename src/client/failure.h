/* failure: what an error answer of an S3 server means to its caller: by the code of its document, else by its status.
 * Pure; any thread. */
#pragma once
#include <stdbool.h>

#include "base/err.h"

enum err failure_code(int status, const char *code);
/* Whether the same request may succeed later. */
bool failure_may_pass(int status, const char *code);
