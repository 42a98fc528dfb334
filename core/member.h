#ifndef WEFT_MEMBER_H
#define WEFT_MEMBER_H

#endif /* WEFT_MEMBER_H */
