/* Ctrl-C while the module works or waits for long: a flag that is polled. */
#include "dev.h"

static volatile sig_atomic_t seen;

static void on_interrupt(int signal)
{
	(void)signal;
	seen = 1;
}

void tc_interrupt_begin(struct interrupt *i)
{
	struct sigaction ours = {.sa_handler = on_interrupt};

	seen = 0;
	i->caught = !sigaction(SIGINT, NULL, &i->old) && i->old.sa_handler != SIG_IGN &&
		    !sigaction(SIGINT, &ours, NULL);
}

bool tc_interrupt_seen(void)
{
	return seen != 0;
}

void tc_interrupt_end(struct interrupt *i)
{
	if (i->caught)
		sigaction(SIGINT, &i->old, NULL);
	i->caught = false;
}
