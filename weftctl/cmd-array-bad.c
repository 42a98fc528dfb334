/* cmd-array-bad.c: weftctl array bad-ranges and accept-loss: ranges that have
 * no readable copy, and zeroes in their place.
 */

#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "format/bad.h"
#include "output.h"
#include "wait.h"

static uint64_t
bytes_of (const json_t *ranges)
{
  uint64_t bytes = 0;
  json_t *range;
  size_t i;

  json_array_foreach (ranges, i, range)
    bytes += output_json_number (range, "length");
  return bytes;
}

/* --- bad-ranges ---------------------------------------------------------- */

static void
bad_row (struct table *t, const json_t *bad)
{
  char list[COPIES_MAX * 5] = "";
  json_t *m;
  size_t i;

  json_array_foreach (json_object_get (bad, "members"), i, m)
    output_text_add (list, sizeof list, "%s%" JSON_INTEGER_FORMAT, i ? " " : "",
                     json_integer_value (m));
  output_table_cell (t, "%s", list);
  output_table_cell (t, "%s",
                     output_json_yes (bad, "copy_left") ? "was unreadable then"
                     : output_json_yes (bad, "copy_out")
                       ? "on a member that is not in-sync"
                       : "none");
}

int
cmd_array_bad_ranges (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0);
  char path[CTL_PATH_BYTES], size[SIZE_TEXT_BYTES];
  json_t *reply, *bad;
  int r = ctl_path ("an array", name, "/bad-ranges", path);

  if (r != EXIT_OK || !ctl_list (ctl, path, &reply, &r))
    return r;
  bad = json_object_get (reply, "bad_ranges");
  if (bytes_of (bad) == 0)
    printf ("nothing of array %s is known to be bad\n", name);
  else {
    output_table_of (bad,
                     ">OFFSET|>LENGTH|FOUND BY|LISTED BY MEMBER|OTHER COPY",
                     "offset:number|length:number|reason", bad_row, 0);
    printf ("%s in all; \"man 7 weft\" says how to find the files\n",
            output_size (bytes_of (bad), size));
  }
  json_decref (reply);
  return EXIT_OK;
}

/* --- accept-loss --------------------------------------------------------- */

/* [OFFSET [LENGTH]], in whole blocks. */
static int
asked_range (const struct args *args, uint64_t *first, uint64_t *end)
{
  const char *from = args_plain (args, 1), *much = args_plain (args, 2);
  uint64_t length = INT64_MAX / BAD_BLOCK_BYTES * BAD_BLOCK_BYTES;

  *first = 0;
  if ((from && ctl_parse_size (from, first) == -1) ||
      (much && ctl_parse_size (much, &length) == -1) || length == 0 ||
      *first % BAD_BLOCK_BYTES || length % BAD_BLOCK_BYTES ||
      *first > INT64_MAX) {
    ctl_error ("array accept-loss: %s%s%s: no range of whole blocks of %d "
               "bytes; weftctl array bad-ranges %s has them",
               from ? from : "", much ? " " : "", much ? much : "",
               BAD_BLOCK_BYTES, args_plain (args, 0));
    return EXIT_USAGE;
  }
  *end = length > INT64_MAX - *first ? INT64_MAX : *first + length;
  return EXIT_OK;
}

/* In the list: the ranges between `first` and `end`, cut to that, that
 * certainly have no good copy.  *later: bytes that may have one; *more: ranges
 * that are too many for one call.
 */
static json_t *
lost_ranges (const json_t *listed, uint64_t first, uint64_t end,
             uint64_t *later, uint64_t *more)
{
  json_t *ranges = json_array (), *b;
  size_t i;

  *later = *more = 0;
  json_array_foreach (listed, i, b) {
    uint64_t at = output_json_number (b, "offset");
    uint64_t stop = at + output_json_number (b, "length");

    at = at > first ? at : first;
    stop = stop < end ? stop : end;
    if (at >= stop)
      continue;
    if (output_json_yes (b, "copy_out"))
      *later += stop - at;
    else if (json_array_size (ranges) == LOSS_RANGES_MAX)
      *more += stop - at;
    else
      json_array_append_new (ranges,
                             json_pack ("{sI sI}", "offset", (json_int_t) at,
                                        "length", (json_int_t) (stop - at)));
  }
  return ranges;
}

static bool
overlap (const json_t *x, const json_t *y)
{
  uint64_t at = output_json_number (x, "offset"),
           other = output_json_number (y, "offset");

  return at < other + output_json_number (y, "length") &&
         other < at + output_json_number (x, "length");
}

static int
look_not_bad (struct wait *w, const json_t *reply, bool *done)
{
  const json_t *listed = json_object_get (reply, "bad_ranges"), *b, *r;
  uint64_t bytes = 0;
  char size[SIZE_TEXT_BYTES];
  size_t i, k;

  json_array_foreach (listed, i, b)
    json_array_foreach (w->ranges, k, r)
      if (overlap (b, r)) {
        bytes += output_json_number (r, "length");
        break;
      }
  *done = bytes == 0;
  snprintf (w->now, sizeof w->now,
            "about %s of it are still bad; the array "
            "process says why, and this can be asked for again",
            output_size (bytes, size));
  return EXIT_OK;
}

/* Ask for it, and wait until the members' lists do not have it any more. */
static int
accept_loss (struct ctl *ctl, const char *name, const char *path,
             json_t *ranges)
{
  char to[CTL_PATH_BYTES], size[SIZE_TEXT_BYTES];
  json_t *reply;
  struct wait w;
  int r;

  ctl_path ("an array", name, "/accept-loss", to);
  r = ctl_change (ctl, "POST", to, json_pack ("{sO}", "ranges", ranges),
                  &reply);
  if (r != EXIT_OK || ctl->dry_run)
    return r;
  json_decref (reply);
  wait_init (ctl, &w, true);
  w.what = "good";
  w.quiet = true;
  w.look = look_not_bad;
  w.ranges = ranges;
  snprintf (w.subject, sizeof w.subject, "array %s: accepted, but", name);
  r = wait_done (ctl, &w, path, &reply);
  return ctl_say (ctl, r, reply,
                  "array %s: %s are good again: zeroes, but where a copy could "
                  "be read after all",
                  name, output_size (bytes_of (ranges), size));
}

int
cmd_array_accept_loss (struct ctl *ctl, const struct args *args)
{
  const char *name = args_plain (args, 0);
  char path[CTL_PATH_BYTES], size[SIZE_TEXT_BYTES];
  uint64_t first, end, later, more;
  json_t *reply = NULL, *ranges;
  int r = ctl_path ("an array", name, "/bad-ranges", path);

  if (r == EXIT_OK)
    r = asked_range (args, &first, &end);
  if (r == EXIT_OK)
    r = ctl_call (ctl, "GET", path, NULL, &reply);
  if (r != EXIT_OK)
    return r;
  ranges = lost_ranges (json_object_get (reply, "bad_ranges"), first, end,
                        &later, &more);
  if (later > 0)
    ctl_error (
      "array %s: %s are left as they are: a member that is not in-sync "
      "may have a good copy; wait until it is, or replace it",
      name, output_size (later, size));
  if (json_array_size (ranges) > 0)
    r = accept_loss (ctl, name, path, ranges);
  else if (later > 0)
    r = EXIT_REFUSED;
  else if (!ctl->json)
    printf ("nothing of array %s in this range is known to be bad\n", name);
  else
    output_json (reply);
  if (more > 0 && r == EXIT_OK)
    ctl_error ("array %s: %s more are bad: they are too many for once; ask "
               "again for them",
               name, output_size (more, size));
  json_decref (ranges);
  json_decref (reply);
  return r;
}
