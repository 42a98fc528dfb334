#ifndef WEFT_CLUSTER_H
#define WEFT_CLUSTER_H

#endif /* WEFT_CLUSTER_H */
