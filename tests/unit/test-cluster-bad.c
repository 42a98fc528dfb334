/* test-cluster-bad.c: the members' lists of bad ranges, in offsets of their array.  Each
 * place is listed once, with the members that have it, and with whether another copy may
 * be left.
 */

#include <config.h>

#include "test-cluster-world.h"

static void
member_says (unsigned m, const struct bad_list *list, uint64_t report)
{
  struct cluster_disk_heartbeat hb = disk_words (&world.disk[m], 0);

  hb.report = report;
  hb.bad = *list;
  ASK (cluster_disk_heartbeat (engine, in, &hb));
  assert (world.answer.kind == CLUSTER_REPLY_DISK);
}

/* code: of the refusal; NULL: it is accepted. */
static void
accept_loss (uint64_t offset, uint64_t length, const char *code)
{
  struct cluster_loss loss = { .count = 1, .range[0] = { offset, length } };

  ASK (cluster_array_accept_loss (engine, in, "a", &loss));
  if (code)
    expect_refused (world.answer, CLUSTER_CONFLICT, code);
  else
    assert (world.answer.kind == CLUSTER_REPLY_ARRAY);
}

/* Accepting a loss gives the writer an order, about listed ranges only.  Host 0 writes;
 * three blocks at the offset are bad.
 */
static void
test_loss (uint64_t offset)
{
  const struct cluster_array *a = array ();
  const struct cluster_session *s = cluster_array_writer (a);
  uint64_t number;

  accept_loss (offset, 16384, "not-bad");
  accept_loss (offset + 8192, 8192, "not-bad");
  accept_loss (offset - 4096, 8192, "not-bad");
  assert (cluster_session_loss (engine, s) == NULL);
  accept_loss (offset, 12288, NULL);
  assert (cluster_session_loss (engine, s)->range[0].length == 12288);
  assert (cluster_session_loss (engine, s)->epoch == a->rec.epoch);
  number = cluster_session_loss (engine, s)->number;
  accept_loss (offset, 4096, "loss-pending");
  host_beat (writer); /* gets the order, and asks again when it lives on */
  writer->beat_op = 0;
  accept_loss (offset, 4096, NULL);
  assert (cluster_session_loss (engine, s)->range[0].length == 4096);
  assert (cluster_session_loss (engine, s)->number > number);
  for (unsigned ms = 0; ms < 11000; ms += 250)
    tick (250);
  /* The writer has got the order, or never will. */
  assert (cluster_session_loss (engine, s) == NULL);
}

/* Not where a member that is out may have a good copy, nor where nobody writes. */
static void
test_no_loss (const struct layout_piece *p, const struct bad_list *data)
{
  const struct cluster_array *a = array ();
  struct cluster_bad *list;

  live_on (20); /* nobody was heard of while the order grew old */
  world.disk[p->copy[1].member].alive = false;
  report_lost (writer, p->copy[1].member);
  member_says (p->copy[0].member, data, 7);
  assert (cluster_array_bad (a, &list) == 1);
  assert (list->length == 12288 && list->copy_out && !list->copy_left);
  free (list);
  accept_loss (p->offset, 4096, "member-out");
  detach (writer);
  member_says (p->copy[0].member, data, 8);
  accept_loss (p->offset, 4096, "not-attached");
}

/* The writer's heartbeats and time alone: the members would report that they have no
 * list. */
static void
beats (unsigned seconds)
{
  while (seconds-- > 0) {
    for (unsigned i = 0; i < 4; i++)
      tick (250);
    host_beat (writer);
    writer->beat_op = 0;
  }
}

/* A member could not read a block when a part of it was written: the writer copies it
 * from the other member, without a word of anybody.
 */
static void
test_mend (const struct layout_piece *p, struct bad_list *data,
           struct bad_list *image)
{
  const struct cluster_array *a = array ();
  const struct cluster_session *s = cluster_array_writer (a);
  const struct cluster_loss *mend;
  uint64_t number;

  assert (bad_add (data, p->copy[0].offset, 4096, BAD_WRITE));
  live ();
  member_says (p->copy[0].member, data, 4);
  beats (2);
  mend = cluster_session_loss (engine, s);
  assert (mend && mend->epoch == 0 && mend->count == 1);
  assert (mend->range[0].offset == p->offset && mend->range[0].length == 4096);
  assert (verdict () == CLUSTER_WARNING && says ("could not be read on one"));
  assert (!says ("no good copy"));
  number = mend->number;
  beats (30);
  assert (s->loss->number == number);
  beats (40); /* it has failed, and is tried again */
  assert (s->loss->number > number);
  number = s->loss->number;

  /* An order of people goes first. */
  accept_loss (p->offset, 4096, NULL);
  beats (5);
  assert (s->loss->number > number && s->loss->epoch == a->rec.epoch);

  /* Where the other copy is bad as well, it can't be copied. */
  assert (bad_add (image, p->copy[1].offset, 4096, BAD_WRITE));
  member_says (p->copy[1].member, image, 5);
  beats (70);
  assert (s->loss->epoch == a->rec.epoch);
  assert (verdict () == CLUSTER_ERROR && says ("no good copy"));
  image->count = data->count = 0;
  image->sequence++;
  data->sequence++;
  member_says (p->copy[0].member, data, 5);
  member_says (p->copy[1].member, image, 6);
}

int
main (void)
{
  static struct bad_list data, image;
  struct cluster_bad *list;
  const struct cluster_array *a;
  struct layout_piece p;

  healthy ();
  a = array ();
  assert (cluster_array_bad (a, &list) == 0 && list == NULL);

  /* Three blocks on the data's member; the middle one on the image's as well. */
  layout_map (&a->layout, 3 * a->layout.unit + 8192, 12288, &p);
  assert (p.length == 12288);
  assert (bad_add (&data, p.copy[0].offset, 12288, BAD_RESYNC));
  assert (bad_add (&image, p.copy[1].offset + 4096, 4096, BAD_RESYNC));
  data.sequence = image.sequence = 1;
  member_says (p.copy[0].member, &data, 1);
  member_says (p.copy[1].member, &image, 1);
  assert (cluster_array_bad (a, &list) == 3);
  for (unsigned i = 0; i < 3; i++) {
    assert (list[i].offset == p.offset + i * 4096 && list[i].length == 4096);
    assert (list[i].reason == BAD_RESYNC && list[i].copy_left == (i != 1));
    assert (list[i].members == (i == 1 ? 2 : 1) && !list[i].copy_out);
  }
  free (list);
  assert (cluster_array_bad_bytes (a) == 12288);
  assert (verdict () == CLUSTER_ERROR);
  assert (says ("12 KiB of array a can't be read"));
  assert (cluster_array_bad_any (a));
  test_loss (p.offset);

  /* An unchanged report keeps the ranges; a new report without them removes them.  Bad
   * ranges outside the array's part of a member belong to no array.
   */
  data.count = 0;
  data.sequence++;
  assert (bad_add (&data, a->layout.member_bytes, 4096, BAD_REBUILD));
  member_says (p.copy[0].member, &data, 2);
  assert (cluster_array_bad (a, &list) == 1);
  assert (list->offset == p.offset + 4096 && list->members == 1);
  assert (list->member[0] == p.copy[1].member && list->copy_left);
  free (list);
  image.count = 0;
  image.sequence++;
  member_says (p.copy[1].member, &image, 2);
  assert (cluster_array_bad_bytes (a) == 0 && cluster_array_bad_any (a));
  assert (!says ("can't be read"));
  data.count = 0;
  member_says (p.copy[0].member, &data, 3);
  assert (!cluster_array_bad_any (a));
  test_mend (&p, &data, &image);
  assert (bad_add (&data, p.copy[0].offset, 12288, BAD_RESYNC));
  test_no_loss (&p, &data);
  return 0;
}
