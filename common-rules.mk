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

# A library of another folder is brought up to date before anything is linked to it: else
# objects that were made with a header's new structures would meet functions with the old
# ones.  One library is made after the other, because two makes in one folder disturb each
# other.
libcore = $(top_builddir)/core/libcore.la
libcommon = $(top_builddir)/common/libcommon.la
libhost = $(top_builddir)/common/libhost.la
libweftd = $(top_builddir)/server/libweftd.la
$(libcore) $(libcommon) $(libhost) $(libweftd): always
	@cd $(@D) && $(MAKE) $(AM_MAKEFLAGS) $(@F)
$(libcommon): $(libcore)
$(libhost): $(libcommon)
$(libweftd): $(libhost)
always:
.PHONY: always
