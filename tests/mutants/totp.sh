# shellcheck shell=sh
# totp.sh: mutants of server/totp.c: which code of a second factor is good when.  check says how
# they are written.

mutant code-counts-twice test-totp totp.c 'else if (its > used)' 'else if (its >= used)'
mutant code-of-before-counts test-totp totp.c 'else if (its > used)' \
  'else if (its > used || its + 1 == used)'
mutant code-of-minutes-ago-counts test-totp totp.c 'NEAR_STEPS 1' 'NEAR_STEPS 4'
mutant no-skew-is-let-pass test-totp totp.c 'NEAR_STEPS 1' 'NEAR_STEPS 0'
mutant code-is-compared-in-part test-totp totp.c 'own, code, sizeof own)' 'own, code, 5)'
mutant clock-that-was-ahead-is-not-told test-totp totp.c \
  'else if (used > now - FAR_STEPS + NEAR_STEPS) {' 'else if (0) {'
