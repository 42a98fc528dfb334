/* addresses.c: see addresses.h. */

#include <config.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "addresses.h"

bool
addresses_is_loopback (const char *address)
{
  struct in6_addr six;
  struct in_addr four;

  /* "127.example.net" is a name, which may lead anywhere. */
  if (inet_pton (AF_INET, address, &four) == 1)
    return ntohl (four.s_addr) >> 24 == 127;
  return inet_pton (AF_INET6, address, &six) == 1 &&
         (IN6_IS_ADDR_LOOPBACK (&six) ||
          (IN6_IS_ADDR_V4MAPPED (&six) && six.s6_addr[12] == 127));
}

void
addresses_origin (const char *address, char origin[ADDRESSES_ORIGIN_BYTES])
{
  char text[INET6_ADDRSTRLEN];
  struct in6_addr six;

  /* "fe80::1%eth0" has a zone. */
  snprintf (text, sizeof text, "%.*s", (int) strcspn (address, "%"), address);
  if (inet_pton (AF_INET6, text, &six) != 1)
    snprintf (origin, ADDRESSES_ORIGIN_BYTES, "%.45s", address);
  else if (IN6_IS_ADDR_V4MAPPED (&six))
    inet_ntop (AF_INET, six.s6_addr + 12, origin, ADDRESSES_ORIGIN_BYTES);
  else {
    memset (six.s6_addr + 8, 0, 8);
    inet_ntop (AF_INET6, &six, text, sizeof text);
    snprintf (origin, ADDRESSES_ORIGIN_BYTES, "%s/64", text);
  }
}

bool
addresses_is_of_a_host (const char *address)
{
  struct in6_addr six;
  struct in_addr four;

  if (inet_pton (AF_INET6, address, &six) == 1)
    return !IN6_IS_ADDR_UNSPECIFIED (&six) && !IN6_IS_ADDR_MULTICAST (&six) &&
           !IN6_IS_ADDR_V4MAPPED (&six);
  return inet_pton (AF_INET, address, &four) == 1 &&
         four.s_addr != htonl (INADDR_ANY) &&
         four.s_addr != htonl (INADDR_BROADCAST) &&
         !IN_MULTICAST (ntohl (four.s_addr));
}

/* As a certificate has it, whatever way it was written.  False: it is none. */
static bool
canonical (const char *text, char address[46])
{
  uint8_t bytes[16];
  int family = text && strchr (text, ':') ? AF_INET6 : AF_INET;

  return text && inet_pton (family, text, bytes) == 1 &&
         inet_ntop (family, bytes, address, 46) != NULL &&
         addresses_is_of_a_host (address);
}

static bool
has (const char *text, const char *address)
{
  json_t *list = addresses_list (text), *v;
  bool found = false;
  size_t i;

  json_array_foreach (list, i, v)
    found |= strcmp (json_string_value (v), address) == 0;
  json_decref (list);
  return found;
}

void
addresses_take (struct fields *f, const char *name, bool some,
                char text[ADDRESSES_BYTES])
{
  const json_t *list = fields_get (f, name), *v;
  char address[46];
  size_t i;

  text[0] = '\0';
  if (list == NULL)
    return;
  if (!json_is_array (list) || json_array_size (list) > ADDRESSES_MAX ||
      (some && json_array_size (list) == 0))
    fields_fail (f, name, "field %s must be a list of %s%d IP addresses", name,
                 some ? "1 to " : "at most ", ADDRESSES_MAX);
  else
    json_array_foreach (list, i, v) {
      if (!canonical (json_string_value (v), address) || has (text, address)) {
        fields_fail (f, name,
                     "field %s: an element is no IP address of a host, or is "
                     "there twice",
                     name);
        return;
      }
      if (i > 0)
        strcat (text, " ");
      strcat (text, address);
    }
}

json_t *
addresses_list (const char *text)
{
  json_t *list = json_array ();
  size_t n;

  for (; *text; text += n + strspn (text + n, " ")) {
    n = strcspn (text, " ");
    json_array_append_new (list, json_stringn (text, n));
  }
  return list;
}
