# Included by every Makefile.am: the flags that all of Weft shares.

NULL =

AM_CPPFLAGS = \
	-iquote $(top_srcdir) \
	-iquote $(top_srcdir)/core \
	-I$(top_builddir) \
	$(NULL)
AM_CFLAGS = \
	-std=gnu11 \
	-fvisibility=hidden \
	$(WARN_CFLAGS) \
	$(SANITIZE_FLAGS) \
	$(NULL)
AM_LDFLAGS = $(SANITIZE_FLAGS)
