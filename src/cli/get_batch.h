/* get_batch: `forebay get --batch FILE s3://BUCKET [OUT]`. */
#pragma once
#include "cli/session.h"

enum exit_code get_batch_run(const struct args *a);
