/*
 * Basic blocks and where the lanes of a branch meet again: its immediate
 * post-dominator.  Instructions that end threads (exit, ret, trap) count as
 * falling through: lanes that end leave the meeting, they do not cancel it for
 * the others.
 */
#include "flow.h"
#include "ptx.h"
#include <stdio.h>
#include <stdlib.h>

#define MAX_EDGES (16u << 20)

static bool ends_block(const struct emu_ins *ins)
{
	return ins->flags & (EMU_I_BRANCH | EMU_I_EXIT | EMU_I_RETURN);
}

static bool add_edge(struct emu_flow *flow, uint32_t target)
{
	if (flow->edge_count == flow->edge_room) {
		uint32_t room = flow->edge_room ? flow->edge_room * 2 : 256;
		uint32_t *edges =
			room > MAX_EDGES ? NULL : realloc(flow->edges, room * sizeof *edges);

		if (!edges)
			return false;
		flow->edges = edges;
		flow->edge_room = room;
	}
	flow->edges[flow->edge_count++] = target;
	return true;
}

static const struct emu_table *branch_table(const struct emu_ins *ins)
{
	for (int i = 0; i < ins->operand_count; i++)
		if (ins->operands[i].kind == EMU_O_TABLE)
			return ins->operands[i].table;
	return NULL;
}

static const struct emu_operand *branch_label(const struct emu_ins *ins)
{
	for (int i = 0; i < ins->operand_count; i++)
		if (ins->operands[i].kind == EMU_O_LABEL)
			return &ins->operands[i];
	return NULL;
}

static void mark_leaders(const struct emu_function *function, uint8_t *leader)
{
	leader[0] = 1;
	for (uint32_t pc = 0; pc < function->ins_count; pc++) {
		const struct emu_ins *ins = &function->ins[pc];
		const struct emu_table *table;

		if (!ends_block(ins))
			continue;
		leader[pc + 1] = 1;
		if (!(ins->flags & EMU_I_BRANCH))
			continue;
		table = branch_table(ins);
		for (uint32_t i = 0; table && i < table->count; i++)
			leader[table->pcs[i]] = 1;
		if (branch_label(ins))
			leader[branch_label(ins)->value] = 1;
	}
}

static bool connect(struct emu_flow *flow, const struct emu_function *function, uint32_t b)
{
	struct emu_block *block = &flow->blocks[b];
	const struct emu_ins *last = &function->ins[block->end - 1];
	bool guarded = last->guard != EMU_NO_GUARD, fine = true;

	block->first = flow->edge_count;
	if (last->flags & EMU_I_BRANCH) {
		const struct emu_table *table = branch_table(last);
		const struct emu_operand *label = branch_label(last);

		for (uint32_t i = 0; table && i < table->count; i++)
			fine = fine && add_edge(flow, flow->block_of[table->pcs[i]]);
		if (label)
			fine = fine && add_edge(flow, flow->block_of[label->value]);
	}
	if (!ends_block(last) || guarded) {
		if (b + 1 < flow->count)
			fine = fine && add_edge(flow, b + 1);
	} else if (last->flags & (EMU_I_EXIT | EMU_I_RETURN)) {
		block->falls = b + 1 < flow->count;
	}
	block->count = flow->edge_count - block->first;
	return fine;
}

bool emu_flow_build(struct emu_flow *flow, const struct emu_function *function,
		    struct emu_error *error)
{
	uint32_t count = function->ins_count;
	uint8_t *leader = calloc(count + 1, 1);
	bool fine = leader != NULL;

	memset(flow, 0, sizeof *flow);
	if (fine) {
		mark_leaders(function, leader);
		for (uint32_t pc = 0; pc < count; pc++)
			flow->count += leader[pc];
		flow->blocks = calloc(flow->count, sizeof *flow->blocks);
		flow->block_of = malloc(count * sizeof *flow->block_of);
		fine = flow->blocks && flow->block_of;
	}
	if (fine) {
		uint32_t b = 0;

		for (uint32_t pc = 0; pc < count; pc++) {
			if (leader[pc] && pc)
				b++;
			if (leader[pc])
				flow->blocks[b].start = pc;
			flow->blocks[b].end = pc + 1;
			flow->block_of[pc] = b;
		}
		for (b = 0; fine && b < flow->count; b++)
			fine = connect(flow, function, b);
	}
	free(leader);
	if (!fine)
		snprintf(error->text, sizeof error->text,
			 "the control flow of '%s' is too large for the memory there is",
			 function->name);
	return fine;
}

void emu_flow_free(struct emu_flow *flow)
{
	free(flow->blocks);
	free(flow->edges);
	free(flow->block_of);
}

/* ---- post-dominators ------------------------------------------------------------ */

/* Blocks are 0 ... count - 1, `count` is the virtual exit. */
struct post {
	const struct emu_flow *flow;
	uint32_t *first_pred, *preds; /* of each block, in the flow graph with fall-through */
	uint32_t *order;              /* post-order number in the reversed graph */
	uint32_t *by_order;
	uint32_t *dominator;
	uint32_t *stack, *next;
	uint8_t *exits; /* has an edge to the virtual exit */
	uint8_t *seen;
	uint32_t numbered;
};

static uint32_t successor_count(const struct emu_block *block)
{
	return block->count + block->falls;
}

static uint32_t successor(const struct emu_flow *flow, uint32_t b, uint32_t i)
{
	const struct emu_block *block = &flow->blocks[b];

	return i < block->count ? flow->edges[block->first + i] : b + 1;
}

static void fill_preds(struct post *post)
{
	const struct emu_flow *flow = post->flow;
	uint32_t at = 0;

	for (uint32_t b = 0; b < flow->count; b++)
		for (uint32_t i = 0; i < successor_count(&flow->blocks[b]); i++)
			post->first_pred[successor(flow, b, i)]++;
	for (uint32_t b = 0; b <= flow->count; b++) {
		uint32_t count = post->first_pred[b];

		post->first_pred[b] = at;
		at += count;
	}
	for (uint32_t b = flow->count; b-- > 0;)
		for (uint32_t i = 0; i < successor_count(&flow->blocks[b]); i++) {
			uint32_t target = successor(flow, b, i);

			post->preds[post->first_pred[target] + post->next[target]++] = b;
		}
	memset(post->next, 0, (flow->count + 1) * sizeof *post->next);
}

/* Numbers what reaches `root`, against the direction of the edges. */
static void visit(struct post *post, uint32_t root)
{
	uint32_t depth = 0;

	if (post->seen[root])
		return;
	post->seen[root] = 1;
	post->stack[depth++] = root;
	while (depth) {
		uint32_t b = post->stack[depth - 1];

		if (post->first_pred[b] + post->next[b] < post->first_pred[b + 1]) {
			uint32_t pred = post->preds[post->first_pred[b] + post->next[b]++];

			if (!post->seen[pred]) {
				post->seen[pred] = 1;
				post->stack[depth++] = pred;
			}
		} else {
			post->order[b] = post->numbered;
			post->by_order[post->numbered++] = b;
			depth--;
		}
	}
}

static uint32_t intersect(const struct post *post, uint32_t a, uint32_t b)
{
	while (a != b) {
		while (post->order[a] < post->order[b])
			a = post->dominator[a];
		while (post->order[b] < post->order[a])
			b = post->dominator[b];
	}
	return a;
}

static uint32_t merge_successors(const struct post *post, uint32_t b)
{
	const struct emu_flow *flow = post->flow;
	uint32_t result = post->exits[b] ? flow->count : UINT32_MAX;

	for (uint32_t i = 0; i < successor_count(&flow->blocks[b]); i++) {
		uint32_t s = successor(flow, b, i);

		if (post->dominator[s] == UINT32_MAX)
			continue;
		result = result == UINT32_MAX ? s : intersect(post, s, result);
	}
	return result;
}

static void solve(struct post *post)
{
	uint32_t exit = post->flow->count;
	bool changed = true;

	for (uint32_t b = 0; b < exit; b++) {
		post->exits[b] = !successor_count(&post->flow->blocks[b]);
		post->dominator[b] = UINT32_MAX;
	}
	for (uint32_t b = exit; b-- > 0;)
		if (post->exits[b])
			visit(post, b);
	/* What never ends is given an end, so that it has meeting points as well. */
	for (uint32_t b = exit; b-- > 0;)
		if (!post->seen[b]) {
			post->exits[b] = 1;
			visit(post, b);
		}
	post->order[exit] = post->numbered;
	post->by_order[post->numbered] = exit;
	post->dominator[exit] = exit;
	while (changed) {
		changed = false;
		for (uint32_t i = exit; i-- > 0;) {
			uint32_t b = post->by_order[i];
			uint32_t dominator = merge_successors(post, b);

			if (post->dominator[b] != dominator) {
				post->dominator[b] = dominator;
				changed = true;
			}
		}
	}
}

static void set_joins(const struct post *post, struct emu_function *function)
{
	const struct emu_flow *flow = post->flow;

	for (uint32_t b = 0; b < flow->count; b++) {
		struct emu_ins *last = &function->ins[flow->blocks[b].end - 1];
		uint32_t dominator = post->dominator[b];

		if (last->flags & EMU_I_BRANCH && dominator < flow->count)
			last->join = flow->blocks[dominator].start;
	}
}

bool emu_flow_function(struct emu_function *function, struct emu_error *error)
{
	struct emu_flow flow;
	struct post post = {.flow = &flow};
	size_t count, edges;
	uint32_t *memory;
	uint8_t *bytes;
	bool fine = emu_flow_build(&flow, function, error);

	if (fine) {
		count = (size_t)flow.count + 2;
		edges = (size_t)flow.edge_count + flow.count;
		memory = calloc(count * 6 + edges + 1, sizeof *memory);
		bytes = calloc(count * 2, 1);
		fine = memory && bytes;
		if (fine) {
			post.first_pred = memory;
			post.order = memory + count;
			post.by_order = memory + 2 * count;
			post.dominator = memory + 3 * count;
			post.stack = memory + 4 * count;
			post.next = memory + 5 * count;
			post.preds = memory + 6 * count;
			post.exits = bytes;
			post.seen = bytes + count;
			fill_preds(&post);
			solve(&post);
			set_joins(&post, function);
		} else {
			snprintf(error->text, sizeof error->text, "out of memory");
		}
		free(memory);
		free(bytes);
	}
	emu_flow_free(&flow);
	return fine;
}
