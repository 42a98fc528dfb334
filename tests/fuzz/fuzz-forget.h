/* fuzz-forget.h: state that weftd keeps as long as its process runs, which ends when the
 * target begins another one.
 */

#ifndef WEFT_FUZZ_FORGET_H
#define WEFT_FUZZ_FORGET_H

/* Nothing was counted for the audit trail. */
void fuzz_audit_forget (void);

/* Nobody has tried a password. */
void fuzz_limit_forget (void);

/* Nobody has attached an array. */
void fuzz_quota_forget (void);

/* Nothing was refused. */
void fuzz_refusals_forget (void);

#endif /* WEFT_FUZZ_FORGET_H */
