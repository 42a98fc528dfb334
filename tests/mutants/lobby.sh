# shellcheck shell=sh
# lobby.sh: mutants of plugin/lobby.c: clients that wait before a
# process's doors.  check says how they are written.

# Connections that arrive.
mutant all-come-at-once test-lobby lobby.c 'nanosleep (&left, NULL);' ';'
mutant flood-is-let-in-as-it-comes test-lobby lobby.c \
  'refused < REFUSED_AT_ONCE &&' '0 &&'
mutant others-are-refused-with-the-flood test-lobby lobby.c \
  'alike > CAME_MAX / 2 &&' ''
mutant refused-while-there-is-room test-lobby lobby.c \
  'info.tcpi_unacked >= LOBBY_QUEUE_MAX' '1'

# Connections that wait.
mutant one-address-has-all-places test-lobby lobby.c \
  'count_of (&c->origin, &waiting) > (waiting_max + 1) / 2' '0'
mutant another-s-guest-makes-room test-lobby lobby.c \
  'goes = longest_waiting_of (&c->origin);' 'goes = TAILQ_FIRST (&waiting);'
mutant newest-guest-makes-room test-lobby lobby.c \
  'goes = longest_waiting_of (&c->origin);' 'goes = c;'
mutant addresses-together-have-no-bound test-lobby lobby.c \
  'else if (waiting_count > waiting_max)' 'else if (0)'
mutant address-that-has-few-makes-room test-lobby lobby.c \
  'if (count > most) {' 'if (most == 0) {'
mutant descriptors-bound-nobody test-lobby lobby.c \
  'if (all / 3 < waiting_max)' 'if (0)'
mutant limit-of-descriptors-stays-low test-lobby lobby.c \
  'if (setrlimit (RLIMIT_NOFILE, &limit) == -1)' 'if (1)'
mutant guest-waits-for-ever test-lobby lobby.c \
  'now_ms >= c->since_ms + LOBBY_OPEN_MS' '0'
mutant guest-has-no-time test-lobby lobby.c \
  'now_ms >= c->since_ms + LOBBY_OPEN_MS' 'now_ms >= c->since_ms'
mutant time-goes-on-while-inside test-lobby lobby.c \
  'c->since_ms += clock_ms () - c->inside_ms;' ';'
mutant refused-guest-has-its-time-anew test-lobby lobby.c \
  'c->since_ms += clock_ms () - c->inside_ms;' 'c->since_ms = clock_ms ();'
mutant refused-guest-is-the-last test-lobby lobby.c \
  'before && before->since_ms > c->since_ms' '0'
mutant who-has-gone-waits-still test-lobby lobby.c 'waiting_count--;' ';'
mutant who-has-gone-keeps-a-descriptor test-lobby lobby.c \
  'if (c->fd != -1)
    close (c->fd);
  free' 'free'

# Clients' identities.
mutant accepted-sockets-are-not-noted test-lobby lobby.c \
  'accepted[i].bytes = n;' 'accepted[i].bytes = 0;'
mutant any-accepted-socket-will-do test-lobby lobby.c \
  'memcmp (&accepted[k].peer, peer, bytes) != 0)' '0)'
mutant accepted-is-believed-alone test-lobby lobby.c \
  '!is_of (number, peer, bytes))' '1)'
mutant ipv4-by-ipv6-is-one-address test-lobby lobby.c \
  'IN6_IS_ADDR_V4MAPPED (a)' '0'
mutant ipv6-counts-by-hosts test-lobby lobby.c \
  '(mapped ? 12 : 0)' '(mapped ? 12 : 8)'

# Clients inside.
mutant exports-have-no-bound "test-shares test-lobby" shares.c \
  'enum shares_bound b = SHARES_ALL;' 'enum shares_bound b = SHARES_NAME;'
mutant one-name-has-all-exports test-lobby lobby.c \
  'places.max[SHARES_NAME] = places.max[SHARES_READERS] = (all + 1) / 2' \
  'places.max[SHARES_NAME] = all, places.max[SHARES_READERS] = (all + 1) / 2'
mutant readers-have-all-exports test-lobby lobby.c \
  'places.max[SHARES_NAME] = places.max[SHARES_READERS] = (all + 1) / 2' \
  'places.max[SHARES_READERS] = all, places.max[SHARES_NAME] = (all + 1) / 2'
mutant one-session-has-all-exports test-lobby lobby.c \
  'places.max[SHARES_READER] = places.max[SHARES_SESSION] = each' \
  'places.max[SHARES_READER] = each, places.max[SHARES_SESSION] = all'
mutant readers-of-a-node-have-all-exports test-lobby lobby.c \
  'places.max[SHARES_READER] = places.max[SHARES_SESSION] = each' \
  'places.max[SHARES_SESSION] = each, places.max[SHARES_READER] = all'
mutant session-has-too-few-of-few-exports test-lobby lobby.c \
  'all / 8 < LOBBY_SESSION_MIN ? LOBBY_SESSION_MIN : all / 8' 'all / 8'
mutant node-counts-by-its-addresses test-lobby lobby.c 'if (node)' 'if (0)'
mutant unix-clients-are-one-address "test-shares test-lobby" shares.c \
  's->name[0] && strcmp' 'strcmp'
mutant readers-are-not-counted-together "test-shares test-lobby" shares.c \
  'share->name[0] && share->reads' '0'
mutant one-session-has-all-of-a-node test-shares shares.c \
  's->session != 0 && share->session == s->session' '0'
mutant readers-of-a-node-have-no-bound test-shares shares.c \
  'same && s->reads && share->reads' '0'
mutant refused-reader-is-let-in test-lobby lobby.c \
  'full = shares_check (&places, &c->share);
  shares_add' 'full = SHARES_FIT;
  shares_add'
mutant who-is-inside-counts-twice test-lobby lobby.c 'if (c->state != INSIDE)' 'if (1)'
mutant who-returns-stays-inside test-lobby lobby.c \
  'if (c->state == INSIDE) {
    take_out (c);' 'if (0) {
    take_out (c);'
mutant who-returned-is-not-timed test-lobby lobby.c \
  'if (c->fd != -1)
      let_wait (c);' ';'
