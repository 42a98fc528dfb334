/* fuzz-api-seeds.h: inputs that fuzz-api begins with: see there how they are written. */

/* clang-format off */
#define BEAT \
  "\"node\": \"n1\", \"uri\": \"nbd://n1:10810\", \"path\": \"/dev/sdb\", " \
  "\"size\": 1074790400, \"data_bytes\": 1073741824, \"min_epoch\": 0, " \
  "\"generation\": 0, \"sequence\": 2, \"state\": \"serving\", \"report\": 1}"
#define DISKS \
  "[\"01000000-0000-0000-0000-000000000000\", " \
  "\"02000000-0000-0000-0000-000000000000\"]"
#define ASK(method, path, body) \
  method " /api/v1/" path "\n" HEAD "\n" body "\0"
#define ASK_AS(who, method, path, body) \
  method " /api/v1/" path "\n" HEAD who "\n\n" body "\0"
#define DISK(n) \
  ASK ("POST", "disks/0" n "000000-0000-0000-0000-000000000000/heartbeat", \
       "{\"instance\": \"d" n "\", " BEAT)
#define READY \
  "0MEMBERS\0TICK 8\0" \
  ASK ("POST", "arrays", \
       "{\"name\": \"a\", \"layout\": \"raid-1\", \"disks\": " DISKS "}") \
  "TICK 16\0"
#define ATTACH(instance, rest) \
  ASK ("POST", "arrays/{name}/sessions", \
       "{\"instance\": \"" instance "\", \"node\": \"n1\", \"pid\": 1, " rest "}")
#define SAYS(session, route, instance, rest) \
  ASK ("POST", "sessions/{" session "}/" route, \
       "{\"instance\": \"" instance "\", " rest "}")
#define ADMIN "Authorization: Bearer ADMIN"
#define VIEWER "Authorization: Bearer VIEWER"
#define NODE "X-Node: n1"
#define LOGIN "Cookie: {cookie}\nX-Weft-Origin-Secret: {origin_secret}"

static const char sessions[] =
  READY
  ATTACH ("h", "\"mode\": \"rw\"")
  SAYS ("session", "heartbeat", "h",
        "\"epoch\": 2, \"prepared\": 2, \"round\": 3, \"uri\": \"nbd://n1:1\", "
        "\"stats\": {\"reads\": 1, \"requests_waiting\": 2, \"read_latency\": "
        "{\"sum_us\": 9, \"counts\": [1, 2]}, \"members\": [{\"service_us\": 7, "
        "\"suspect\": true, \"latency\": {\"sum_us\": 1}}]}")
  SAYS ("session", "heartbeat", "h",
        "\"epoch\": 2, \"stats\": true, \"draining\": true, \"wait_ms\": 1000, "
        "\"news\": false")
  ASK ("POST", "sessions/{session}/lost",
       "{\"member\": 1, \"round\": 3, \"reason\": \"it is gone\"}")
  "TICK 8\0"
  SAYS ("session", "heartbeat", "h", "\"epoch\": 3, \"prepared\": 3")
  "TICK 16\0"
  ASK ("GET", "sessions", "")
  ASK ("GET", "arrays", "")
  ASK ("DELETE", "sessions/{session}?dry_run=true", "")
  ASK ("DELETE", "sessions/{session}?instance=h", "");
static const char readers[] =
  READY
  ATTACH ("h", "\"mode\": \"rw\"")
  SAYS ("session", "heartbeat", "h", "\"epoch\": 2, \"round\": 1")
  ATTACH ("r", "\"mode\": \"ro\", \"ended\": \"{session}\"")
  SAYS ("session", "heartbeat", "r", "\"epoch\": 2, \"older\": true, "
        "\"equal\": true")
  ATTACH ("i", "\"mode\": \"rw\"")
  ATTACH ("i", "\"mode\": \"rw\", \"takeover\": true, \"exports\": true")
  ASK ("DELETE", "sessions/{older}?instance=r", "")
  ASK ("DELETE", "sessions/{session}", "")
  ASK ("GET", "status", "");
static const char leases[] =
  READY
  ATTACH ("h", "\"mode\": \"shared\"")
  SAYS ("session", "heartbeat", "h", "\"epoch\": 2, \"order\": 8589934593")
  SAYS ("session", "leases", "h",
        "\"number\": 1, \"recovered\": 8589934593, \"give\": []")
  ATTACH ("i", "\"mode\": \"shared\"")
  SAYS ("session", "heartbeat", "i", "\"epoch\": 2")
  SAYS ("older", "leases", "h", "\"number\": 2, \"give\": [[0, 65536]]")
  SAYS ("session", "leases", "i",
        "\"ask\": [{\"must\": [0, 512], \"wish\": [0, 1024]}]")
  SAYS ("session", "leases", "i",
        "\"wait_ms\": 2000, \"ask\": [{\"must\": [65536, 512], \"wish\": [0, "
        "131072]}]")
  ASK ("GET", "arrays/{name}/leases", "")
  SAYS ("older", "heartbeat", "h", "\"epoch\": 2")
  "RESTART\0TICK 8\0"
  SAYS ("session", "leases", "i",
        "\"number\": 12884901888, \"declare\": [[0, 512]]")
  ASK ("GET", "arrays/{name}/leases", "")
  SAYS ("session", "leases", "i", "\"ended\": \"{older}\", "
        "\"ask\": [{\"must\": [512, 512], \"wish\": [0, 1024]}]")
  ASK ("DELETE", "sessions/{older}", "");
static const char rights[] =
  READY
  ASK ("PUT", "arrays/{name}/allow/{node}", "{\"mode\": \"rw\", \"failover\": true}")
  ASK ("PUT", "arrays/{name}/service", "{\"nodes\": [\"n1\"]}")
  ASK ("GET", "arrays/{name}/service?attach=rw", "")
  ATTACH ("h", "\"mode\": \"service\"")
  ASK ("POST", "arrays/{name}/service/move", "{\"node\": \"n1\"}")
  SAYS ("session", "heartbeat", "h", "\"epoch\": 2, \"fences\": 1")
  ASK ("DELETE", "nodes/{node}/fence", "")
  ASK ("POST", "nodes/{node}/fence", "")
  ASK ("GET", "arrays/{name}/losing?member=1", "")
  ASK ("DELETE", "arrays/{name}/service", "")
  ASK ("DELETE", "arrays/{name}/allow/{node}", "");
static const char parts[] =
  READY
  ATTACH ("p", "\"mode\": \"shared\", \"part\": {\"offset\": 0, \"length\": 262144}")
  SAYS ("session", "heartbeat", "p", "\"epoch\": 2")
  ATTACH ("q", "\"mode\": \"shared\", \"part\": {\"offset\": 262144}")
  SAYS ("session", "heartbeat", "q", "\"epoch\": 2")
  SAYS ("session", "leases", "q", "\"number\": 1")
  ASK ("PATCH", "nodes/{node}", "{\"maintenance\": true}")
  ASK ("POST", "nodes/{node}/drain", "")
  ASK ("GET", "jobs/drain-n1", "")
  ASK ("DELETE", "nodes/{node}/drain", "");
static const char logins[] =
  "1"
  ASK ("POST", "login", "{\"user\": \"kim\", \"password\": \"long enough, it is\"}")
  ASK_AS ("Cookie: {cookie}", "GET", "me", "")
  ASK_AS (LOGIN, "POST", "tokens", "{\"name\": \"t\", \"role\": \"viewer\"}")
  ASK_AS ("Authorization: Bearer {token}", "GET", "sessions", "")
  ASK_AS (ADMIN, "POST", "node-tokens", "{\"node\": \"n2\"}")
  ASK ("POST", "enroll", "{\"token\": \"{token}\", \"node\": \"n2\", \"csr\": "
       "\"-----BEGIN CERTIFICATE REQUEST-----\"}")
  ASK_AS (ADMIN, "GET", "node-tokens", "")
  ASK_AS (ADMIN, "DELETE", "node-tokens/{id}", "")
  ASK_AS (LOGIN, "PATCH", "users/kim", "{\"password\": \"another long one\"}")
  ASK_AS (LOGIN, "POST", "logout", "")
  ASK_AS ("Cookie: {cookie}", "GET", "me", "");
/* The output of openssl req for node n2. */
#define CSR \
  "-----BEGIN CERTIFICATE REQUEST-----\\n" \
  "MIHHMG8CAQAwDTELMAkGA1UEAwwCbjIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC\\n" \
  "AARN/xzklLHPOVmTqadyYwEc8VQsR0IM2DnICHf9jW6IwDwOpvgemW3bmHJif80c\\n" \
  "ty4VyJp6ywXOoa2784Vo75JOoAAwCgYIKoZIzj0EAwIDSAAwRQIgdFRLGkNpMD6Z\\n" \
  "6JvRDRhINtMbagxHxATB4nx93y/q0fcCIQCdRibnDhs2DuoVCNZpCgx1LsG+2iGE\\n" \
  "NKONzUgU4XwXrg==\\n" \
  "-----END CERTIFICATE REQUEST-----\\n"
static const char enrolls[] =
  "1"
  ASK_AS (ADMIN, "POST", "node-tokens", "{\"addresses\": [\"10.0.0.2\"]}")
  ASK ("POST", "enroll", "{\"token\": \"{token}\", \"node\": \"n2\", \"csr\": \"" CSR "\"}")
  ASK ("POST", "enroll", "{\"token\": \"{token}\", \"node\": \"n2\", \"csr\": \"" CSR "\"}")
  ASK_AS (ADMIN, "PUT", "nodes/n2/addresses", "{\"addresses\": [\"10.0.0.2\"]}")
  ASK_AS (ADMIN, "PUT", "nodes/{node}/addresses", "{\"addresses\": [\"10.0.0.2\"]}")
  ASK_AS (ADMIN, "PUT", "nodes/{node}/addresses", "{\"addresses\": [\"127.0.0.1\"]}")
  ASK_AS (ADMIN, "PUT", "nodes/{node}/addresses", "{\"addresses\": [\"8.8.8.8\"]}")
  ASK_AS (NODE, "POST", "nodes/{node}/certificate", "{\"csr\": \"" CSR "\"}")
  ASK_AS (NODE, "POST", "nodes/n2/certificate", "{\"csr\": \"" CSR "\"}")
  ASK_AS (ADMIN, "DELETE", "nodes/n2/certificate", "")
  "RESTART\0"
  ASK_AS (ADMIN, "POST", "node-tokens", "{\"node\": \"n2\"}")
  ASK ("POST", "enroll", "{\"token\": \"{token}\", \"node\": \"n3\", \"csr\": \"" CSR "\"}")
  ASK ("POST", "enroll", "{\"token\": \"{token}\", \"node\": \"n2\", \"csr\": \"" CSR "\"}")
  ASK_AS (NODE, "POST", "nodes/{node}/certificate", "{\"csr\": 1}");
static const char users[] =
  "1"
  ASK_AS (ADMIN, "POST", "users",
          "{\"name\": \"u\", \"role\": \"admin\", \"password\": \"long enough, it is\"}")
  ASK_AS (ADMIN, "POST", "users",
          "{\"name\": \"u\", \"role\": \"viewer\", \"password\": \"long enough, it is\"}")
  ASK ("POST", "login", "{\"user\": \"u\", \"password\": \"long enough, it is\"}")
  ASK_AS (ADMIN, "GET", "users", "")
  ASK_AS (ADMIN, "GET", "users/u", "")
  ASK_AS (LOGIN, "PATCH", "users/u",
          "{\"current\": \"long enough, it is\", \"password\": \"another long one\"}")
  ASK_AS (LOGIN, "PATCH", "users/kim", "{\"role\": \"viewer\"}")
  ASK_AS (LOGIN, "POST", "tokens",
          "{\"name\": \"s\", \"role\": \"admin\", \"expires_s\": 9, \"login\": true}")
  ASK_AS ("Authorization: Bearer {token}", "POST", "tokens",
          "{\"name\": \"r\", \"role\": \"viewer\", \"expires_s\": 99}")
  ASK_AS ("Authorization: Bearer {token}", "POST", "tokens",
          "{\"name\": \"r\", \"role\": \"viewer\"}")
  ASK_AS (VIEWER, "DELETE", "tokens/s", "")
  ASK_AS (VIEWER, "GET", "tokens", "")
  ASK_AS (ADMIN, "PATCH", "users/u", "{\"role\": \"viewer\", \"password\": \"a third long one\"}")
  ASK_AS (ADMIN, "DELETE", "tokens/s", "")
  ASK_AS (ADMIN, "DELETE", "users/u", "")
  ASK_AS (ADMIN, "GET", "audit?limit=3&cursor=9", "");
static const char array[] =
  "0" DISK ("1") DISK ("2")
  "POST /api/v1/arrays\n" HEAD "Idempotency-Key: k\n\n"
    "{\"name\": \"a\", \"layout\": \"raid-1\", \"disks\": " DISKS "}\0"
  "TICK 4\0" DISK ("1") DISK ("2")
  ATTACH ("h", "\"mode\": \"rw\"")
  ASK ("GET", "arrays?limit=1", "")
  ASK_AS ("If-None-Match: \"x\"", "GET", "arrays/{name}", "")
  ASK_AS ("If-Match: \"x\"", "DELETE", "arrays/{name}?dry_run=true", "")
  "RESTART\0GET /metrics\n" HEAD "\n";
static const char people[] =
  "1"
  ASK ("GET", "me", "")
  ASK_AS (ADMIN, "GET", "users", "")
  ASK_AS (VIEWER, "POST", "users",
          "{\"name\": \"u\", \"role\": \"admin\", \"password\": \"long enough, it is\"}")
  ASK_AS ("Cookie: weft-login=00; a=b", "POST", "logout", "")
  ASK_AS (NODE, "GET", "events", "")
  "GET /\nHost: [::1]:7380\n\n\0"
  "GET /x/../y\nHost: 127.0.0.1\nOrigin: http://elsewhere\n\n";
static const char reads[] =
  "0"
  ASK ("GET", "disks", "")
  ASK ("GET", "jobs", "")
  ASK ("GET", "nodes", "")
  ASK ("GET", "sessions", "")
  ASK ("GET", "log?severity=error&text=a%20b&subject=x", "")
  ASK ("GET", "history?from=1&to=2&points=3", "")
  ASK ("PATCH", "nodes/{node}", "{\"maintenance\": true}")
  ASK ("POST", "layouts", "{\"disks\": " DISKS "}");

static const struct {
  const char *data;
  size_t size;
} seeds[] = {
#define SEED(name) { name, sizeof name - 1 }
  SEED (sessions), SEED (readers), SEED (leases), SEED (rights), SEED (parts),
  SEED (logins), SEED (enrolls), SEED (users), SEED (array), SEED (people),
  SEED (reads),
};
/* clang-format on */
