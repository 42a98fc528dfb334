/* cmd-ca.c: the cluster's CA, and another one that takes its place. */

#include <config.h>

#include <stdio.h>
#include <string.h>

#include "ctl.h"
#include "commands.h"
#include "output.h"

#define CA "/api/v1/ca"

static void
print_one (const char *what, const json_t *ca)
{
  if (json_is_object (ca))
    printf ("%-9s %s\n          since %s, until %s%s\n          %s\n", what,
            output_json_text (ca, "subject"), output_json_text (ca, "since"),
            output_json_text (ca, "until"),
            output_json_yes (ca, "bound") ? ", for its networks alone" : "",
            output_json_text (ca, "fingerprint"));
}

static void
print_node (struct table *t, const json_t *node)
{
  output_table_cell (t, "%s", output_json_yes (node, "trusts") ? "yes" : "no");
  output_table_cell (t, "%s", output_json_yes (node, "renewed") ? "yes" : "no");
  output_table_cell (t, "%s",
                     output_json_yes (node, "waited_for") ? "yes" : "-");
}

/* The next step, and the program that does it. */
static void
print_next (const json_t *ca, bool waits)
{
  const char *rotation = output_json_text (ca, "rotation");

  if (strcmp (rotation, "spread") == 0)
    printf ("Nodes learn of the next CA, by weft-renew (once an hour); then "
            "they get\ncertificates of it. If it no longer runs on a node: "
            "weftctl ca rotate --force\n");
  else if (strcmp (rotation, "renew") == 0 && waits)
    printf ("Nodes get certificates of the next CA, by weft-renew (once an "
            "hour). If a node\nwill not come back: weftctl node revoke NODE\n");
  else if (strcmp (rotation, "renew") == 0)
    printf ("Every node has a certificate of the next CA: weftctl ca retire "
            "ends the rotation.\nBefore that, give the two CAs (/ca.pem) to "
            "other programs that trust the first.\n");
}

static int
print_ca (struct ctl *ctl, int r, json_t *ca)
{
  const json_t *nodes = json_object_get (ca, "nodes"), *node;
  const json_t *revoked = json_object_get (ca, "revocations");
  bool waits = false;
  size_t i;

  if (r != EXIT_OK)
    return r;
  if (ctl->json)
    output_json (ca);
  else {
    print_one ("CA", json_object_get (ca, "ca"));
    print_one ("next", json_object_get (ca, "next"));
    printf ("rotation  %s\n", output_json_text (ca, "rotation"));
    printf ("revoked   list %" JSON_INTEGER_FORMAT "%s\n",
            json_integer_value (json_object_get (revoked, "number")),
            json_is_string (json_object_get (revoked, "unconfirmed_since"))
              ? "; must be confirmed after a restore: see weftctl status"
              : "");
    output_table_of (
      nodes, "NODE|TRUSTS THESE|HAS A CERTIFICATE OF THE LAST|WAITED FOR",
      "node", print_node, 0);
    json_array_foreach (nodes, i, node)
      waits |= output_json_yes (node, "waited_for");
    print_next (ca, waits);
  }
  json_decref (ca);
  return r;
}

int
cmd_ca_show (struct ctl *ctl, const struct args *args)
{
  json_t *ca = NULL;
  int r = ctl_call (ctl, "GET", CA, NULL, &ca);

  return print_ca (ctl, r, ca);
}

int
cmd_ca_rotate (struct ctl *ctl, const struct args *args)
{
  json_t *ca = NULL, *body = json_object ();
  int r = EXIT_OK;

  if (args_switch (args, "force")) {
    json_object_set_new (body, "force", json_true ());
    if (!ctl->yes && !ctl->json)
      printf (
        "  Nodes that do not trust the next CA yet can't connect to those "
        "that have a\n  certificate of it, until weft-renew runs there.\n");
    r = ctl_confirm (ctl, "force");
  }
  if (r != EXIT_OK) {
    json_decref (body);
    return r;
  }
  r = ctl_call (ctl, "POST", CA "/rotate", body, &ca);
  return print_ca (ctl, r, ca);
}

int
cmd_ca_retire (struct ctl *ctl, const struct args *args)
{
  bool force = args_switch (args, "force");
  json_t *ca = NULL;
  int r;

  if (!ctl->yes && !ctl->json)
    printf (
      "  Programs that trust only the first CA can no longer reach weftd.\n%s",
      force ? "  Nodes without a certificate of the next CA must be enrolled "
              "again.\n"
            : "");
  r = ctl_confirm (ctl, force ? "force" : "retire");
  if (r == EXIT_OK)
    r = ctl_call (ctl, "POST", force ? CA "/retire?force=true" : CA "/retire",
                  NULL, &ca);
  r = print_ca (ctl, r, ca);
  if (r == EXIT_OK && !ctl->json)
    printf (
      "Make a backup now (weftctl backup): the ones from before have no key "
      "of this CA.\n");
  return r;
}
