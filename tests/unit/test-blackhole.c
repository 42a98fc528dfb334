/* test-blackhole.c: a TCP connection on which large packets do not arrive.
 *
 * A filter of the receiving socket drops them, as a line with a smaller MTU does.  Small
 * ones pass: acknowledgements, a reset.
 */

#include <config.h>

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/filter.h>

#include "plugin/blackhole.h"

#define SMALL 200
/* TCP waits 0.2 s, then twice as long each time: this is 3 s. */
#define RETRIES 4

static void
connect_pair (int fd[2])
{
  struct sockaddr_in at = { .sin_family = AF_INET,
                            .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
  socklen_t bytes = sizeof at;
  int listener = socket (AF_INET, SOCK_STREAM, 0);

  assert (bind (listener, (struct sockaddr *) &at, bytes) == 0);
  assert (listen (listener, 1) == 0);
  assert (getsockname (listener, (struct sockaddr *) &at, &bytes) == 0);
  fd[0] = socket (AF_INET, SOCK_STREAM, 0);
  assert (connect (fd[0], (struct sockaddr *) &at, bytes) == 0);
  fd[1] = accept (listener, NULL, NULL);
  assert (fd[1] >= 0);
  close (listener);
}

static void
drop_large (int fd)
{
  struct sock_filter code[] = {
    BPF_STMT (BPF_LD | BPF_W | BPF_LEN, 0),
    BPF_JUMP (BPF_JMP | BPF_JGT | BPF_K, SMALL, 0, 1),
    BPF_STMT (BPF_RET | BPF_K, 0),
    BPF_STMT (BPF_RET | BPF_K, UINT32_MAX),
  };
  struct sock_fprog program = { .len = 4, .filter = code };

  assert (setsockopt (fd, SOL_SOCKET, SO_ATTACH_FILTER, &program,
                      sizeof program) == 0);
}

static unsigned
retries (int fd)
{
  struct tcp_info info;
  socklen_t bytes = sizeof info;

  assert (getsockopt (fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0);
  return info.tcpi_retransmits;
}

int
main (void)
{
  static const char data[4000];
  struct timespec moment = { .tv_nsec = 10000000 };
  char byte;
  int fd[2];

  connect_pair (fd);
  drop_large (fd[1]);
  assert (write (fd[0], data, 1) == 1 && read (fd[1], &byte, 1) == 1);
  assert (!blackhole_swallows (fd[0]));
  assert (write (fd[0], data, sizeof data) == sizeof data);
  for (bool over = false; !over; nanosleep (&moment, NULL)) {
    unsigned before = retries (fd[0]);
    bool swallows = blackhole_swallows (fd[0]);

    assert (!swallows || retries (fd[0]) >= RETRIES);
    assert (swallows || before < RETRIES);
    over = before >= RETRIES;
  }
  /* Nothing of it came, and the connection lives. */
  assert (recv (fd[1], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
  assert (write (fd[1], data, 1) == 1 && read (fd[0], &byte, 1) == 1);
  assert (!blackhole_swallows (fd[1]));
  blackhole_reset (fd[0]);
  assert (read (fd[1], &byte, 1) == -1 && errno == ECONNRESET);
  close (fd[0]);
  close (fd[1]);
  assert (socketpair (AF_UNIX, SOCK_STREAM, 0, fd) == 0);
  assert (!blackhole_swallows (fd[0]));
  close (fd[0]);
  close (fd[1]);
  return 0;
}
