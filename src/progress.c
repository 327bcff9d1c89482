/* A line on the terminal for a grid that runs for long on the emulator. */
#include "dev.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

void tc_progress_begin(struct progress *p, const struct launch *l)
{
	int64_t after = tc_config_integer(CONFIG_emulator_progress);

	*p = (struct progress){.name = l->name,
			       .blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2]};
	p->wanted = after > 0 && isatty(STDERR_FILENO);
	if (p->wanted)
		p->due = now() + (double)after;
}

/* Once a second from then on; the cursor stays at the beginning of the line. */
void tc_progress_show(struct progress *p, uint64_t instructions, uint64_t block)
{
	double at;

	if (!p->wanted)
		return;
	at = now();
	if (at < p->due)
		return;
	p->due = at + 1;
	p->shown = true;
	fprintf(stderr,
		"\033[Kemulating kernel '%s': %.1f M warp-instructions, block %llu of %llu\r",
		p->name, (double)instructions * 1e-6, (unsigned long long)block,
		(unsigned long long)p->blocks);
	fflush(stderr);
}

void tc_progress_end(struct progress *p)
{
	if (!p->shown)
		return;
	fputs("\033[K", stderr);
	fflush(stderr);
}
