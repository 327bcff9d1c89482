/* Operations that complete behind the instruction's back. */
#include "schedule.h"

static void append(struct emu_cluster *cluster, struct emu_engine_op *op)
{
	op->next = NULL;
	op->previous = cluster->last_op;
	if (cluster->last_op)
		cluster->last_op->next = op;
	else
		cluster->ops = op;
	cluster->last_op = op;
	cluster->op_count++;
}

static void take_out(struct emu_cluster *cluster, struct emu_engine_op *op)
{
	if (op->previous)
		op->previous->next = op->next;
	else
		cluster->ops = op->next;
	if (op->next)
		op->next->previous = op->previous;
	else
		cluster->last_op = op->previous;
	cluster->op_count--;
}

static void finish(struct emu_cluster *cluster, struct emu_engine_op *op)
{
	op->complete(op);
	op->discard(op);
	emu_changed(cluster->worker);
}

void emu_engine_issue(struct emu_cluster *cluster, struct emu_engine_op *op)
{
	op->cluster = cluster;
	if (cluster->grid->mode == EMU_FAST)
		finish(cluster, op);
	else
		append(cluster, op);
}

static bool eligible(const struct emu_cluster *cluster, const struct emu_engine_op *op)
{
	const struct emu_engine_op *earlier;

	if (!op->order)
		return true;
	for (earlier = cluster->ops; earlier != op; earlier = earlier->next)
		if (earlier->order == op->order)
			return false;
	return true;
}

bool emu_engine_step(struct emu_cluster *cluster, bool any)
{
	struct emu_engine_op *op = cluster->ops;

	if (!op)
		return false;
	if (any) {
		uint32_t skip = emu_random(&cluster->worker->random) % cluster->op_count;

		while (skip--)
			op = op->next;
		if (!eligible(cluster, op))
			op = cluster->ops;
	} else {
		/* The newest first: what a missing wait lets overtake does so. */
		op = cluster->last_op;
		while (!eligible(cluster, op))
			op = op->previous;
	}
	take_out(cluster, op);
	finish(cluster, op);
	return true;
}

/* xorshift64*; the state is never zero. */
uint32_t emu_random(uint64_t *state)
{
	uint64_t x = *state ? *state : 0x9e3779b97f4a7c15ull;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return (uint32_t)((x * 0x2545f4914f6cdd1dull) >> 32);
}
