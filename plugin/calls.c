/* calls.c: intercepts calls from nbdkit, or a library, to other libraries.
 *
 * These calls were bound before this plugin was loaded.  But they all go
 * through a table of addresses (the GOT), where this file finds them by name.
 * An entry stays replaced to the end of the process, so the plugin is never
 * unloaded from memory (-z nodelete).
 */

#include <config.h>

#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"

struct table {
  const ElfW (Rela) * entries;
  size_t bytes;
};

struct program {
  const char *object; /* whose: a part of its file's name, "": the program's */
  uintptr_t base;
  const ElfW (Sym) * symbols;
  const char *names;
  struct table tables[2];
  uintptr_t relro, relro_end; /* made read-only by the loader */
};

/* An address of the dynamic section, which not every loader has moved. */
static const void *
moved (const struct program *p, uintptr_t address)
{
  return (const void *) (address < p->base ? p->base + address : address);
}

static void
read_dynamic (struct program *p, const ElfW (Dyn) * d)
{
  bool rela = false;

  for (; d->d_tag != DT_NULL; d++)
    switch (d->d_tag) {
    case DT_SYMTAB:
      p->symbols = moved (p, d->d_un.d_ptr);
      break;
    case DT_STRTAB:
      p->names = moved (p, d->d_un.d_ptr);
      break;
    case DT_RELA:
      p->tables[0].entries = moved (p, d->d_un.d_ptr);
      break;
    case DT_RELASZ:
      p->tables[0].bytes = d->d_un.d_val;
      break;
    case DT_JMPREL:
      p->tables[1].entries = moved (p, d->d_un.d_ptr);
      break;
    case DT_PLTRELSZ:
      p->tables[1].bytes = d->d_un.d_val;
      break;
    case DT_PLTREL:
      rela = d->d_un.d_val == DT_RELA;
      break;
    }
  if (!rela) /* a machine with another kind of entries */
    p->tables[1].bytes = 0;
  for (unsigned i = 0; i < 2; i++)
    if (p->tables[i].entries == NULL)
      p->tables[i].bytes = 0;
}

/* The program itself comes first. */
static int
read_program (struct dl_phdr_info *info, size_t size, void *opaque)
{
  const uintptr_t page = sysconf (_SC_PAGESIZE);
  struct program *p = opaque;

  if (strstr (info->dlpi_name, p->object) == NULL)
    return 0;
  p->base = info->dlpi_addr;
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const ElfW (Phdr) *h = &info->dlpi_phdr[i];

    if (h->p_type == PT_DYNAMIC)
      read_dynamic (p, (const void *) (p->base + h->p_vaddr));
    else if (h->p_type == PT_GNU_RELRO) {
      p->relro = (p->base + h->p_vaddr) & ~(page - 1);
      p->relro_end = (p->base + h->p_vaddr + h->p_memsz) & ~(page - 1);
    }
  }
  return 1;
}

/* Which of them have a place in the tables, as bits?  Or put them there. */
static unsigned
visit (const struct program *p, const struct call *calls, bool put)
{
  unsigned found = 0;

  for (unsigned i = 0; i < 2; i++)
    for (size_t k = 0; k < p->tables[i].bytes / sizeof p->tables[i].entries[0];
         k++) {
      const ElfW (Rela) *e = &p->tables[i].entries[k];
      /* The symbol's number: the upper half, whatever the word's size. */
      size_t symbol = sizeof e->r_info == 8 ? e->r_info >> 16 >> 16
                                            : e->r_info >> 8;
      const char *name = p->names + p->symbols[symbol].st_name;

      for (unsigned c = 0; symbol != 0 && calls[c].name; c++)
        if (strcmp (name, calls[c].name) == 0) {
          found |= 1u << c;
          if (put)
            *(void **) (p->base + e->r_offset) = calls[c].function;
        }
    }
  return found;
}

bool
calls_replace (const char *object, const struct call *calls)
{
  struct program p = { .object = object };
  unsigned all = 0;
  void *relro;
  size_t bytes;

  dl_iterate_phdr (read_program, &p);
  relro = (void *) p.relro;
  bytes = p.relro_end - p.relro;
  for (unsigned c = 0; calls[c].name; c++)
    all |= 1u << c;
  if (p.symbols == NULL || p.names == NULL || visit (&p, calls, false) != all)
    return false;
  if (bytes > 0 && mprotect (relro, bytes, PROT_READ | PROT_WRITE) == -1)
    return false;
  visit (&p, calls, true);
  if (bytes > 0)
    mprotect (relro, bytes, PROT_READ);
  return true;
}
