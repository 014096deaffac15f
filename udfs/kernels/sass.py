"""What the machine code of kernels must be like, counted in nvdisasm's text.

A claim about speed that follows from machine code is counted here, not asserted in a comment: how wide
stores are, what a loop issues, what it moves through shared memory. How fast that is, only a GPU tells.
"""

import re

INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)([^;]*);")
LABEL = re.compile(r"^(\.L_\w+):")


class Block:
    """Names of instructions that run one after the other, and the numbers of the blocks that may follow."""

    def __init__(self):
        self.names, self.next = [], []

    def count(self, *kinds):
        return sum(name.startswith(kinds) for name in self.names)


class Loop:
    """A loop: its first block, and all of them by their numbers."""

    def __init__(self, blocks, first, numbers, back):
        self.blocks, self.first, self.numbers, self.back = blocks, first, numbers, back

    def count(self, *kinds):
        return sum(self.blocks[number].count(*kinds) for number in self.numbers)

    def turn(self, *wanted):
        """The instructions of the way through it that has most of the wanted kinds, and then the fewest
        others: what a turn issues where nothing special happens."""
        best = {self.first: ((0, 0), [])}
        done = []
        for number in in_order(self.blocks, self.first, self.back):
            if number not in best or number not in self.numbers:
                continue
            (most, issued), way = best[number]
            block = self.blocks[number]
            cost, way = (most - block.count(*wanted), issued + len(block.names)), way + block.names
            for to in block.next:
                if to == self.first:
                    done.append((cost, way))
                elif (number, to) not in self.back and (to not in best or cost < best[to][0]):
                    best[to] = (cost, way)
        return min(done)[1]


def kernels(text):
    """The blocks of each kernel."""
    parts = re.split(r"^\.text\.(\w+):$", text, flags=re.MULTILINE)
    return {name: blocks(body) for name, body in zip(parts[1::2], parts[2::2])}


def blocks(body):
    found, places, jumps, block = [], {}, [], None
    for line in body.splitlines():
        if label := LABEL.match(line.strip()):
            block, places[label[1]] = None, len(found)
            continue
        instruction = INSTRUCTION.search(line)
        if not instruction:
            continue
        if block is None:
            block = Block()
            found.append(block)
        predicate, name, rest = instruction.groups()
        if predicate and predicate.strip() == "@!PT":
            continue  # It is never carried out.
        block.names.append(name)
        if name.startswith(("BRA", "EXIT", "BRX", "RET")):
            target = re.search(r"`\((\.L_\w+)\)", rest)
            sure = not predicate and not re.search(r"\bU?!?U?P\d", rest)
            jumps.append((len(found) - 1, target and target[1], sure))
            block = None
    ends = set()
    for number, target, sure in jumps:
        if target in places and places[target] < len(found):
            found[number].next.append(places[target])
        if sure:
            ends.add(number)
    for number in range(len(found) - 1):
        if number not in ends:
            found[number].next.append(number + 1)
    return found


def in_order(all_blocks, first, back):
    """Blocks from `first` on, each after all that lead to it but by an edge back."""
    seen, order = set(), []
    stack = [(first, iter(all_blocks[first].next))]
    seen.add(first)
    while stack:
        number, following = stack[-1]
        for to in following:
            if to not in seen and (number, to) not in back:
                seen.add(to)
                stack.append((to, iter(all_blocks[to].next)))
                break
        else:
            stack.pop()
            order.append(number)
    return order[::-1]


def loops(all_blocks):
    """The loops of a kernel, the smallest first."""
    before = {}
    for number, block in enumerate(all_blocks):
        for to in block.next:
            before.setdefault(to, []).append(number)
    order = in_order(all_blocks, 0, set())
    above = {number: set(order) for number in order}
    above[0] = {0}
    changed = True
    while changed:
        changed = False
        for number in order[1:]:
            known = [above[at] for at in before[number] if at in above]
            now = set.intersection(*known) | {number}
            changed |= now != above[number]
            above[number] = now
    back = {(number, to) for number in order for to in all_blocks[number].next if to in above[number]}
    found = {}
    for last, first in back:
        inside, waiting = found.setdefault(first, {first}), [last]
        while waiting:
            number = waiting.pop()
            if number not in inside:
                inside.add(number)
                waiting += [at for at in before[number] if at in above]
    made = [Loop(all_blocks, first, numbers, back) for first, numbers in found.items()]
    return sorted(made, key=lambda loop: len(loop.numbers))


def innermost(all_blocks, *wanted):
    """The innermost loops that have one of the wanted kinds."""
    kept = []
    for loop in loops(all_blocks):
        if loop.count(*wanted) and not any(other.numbers <= loop.numbers for other in kept):
            kept.append(loop)
    return kept


def claims(text):
    """(what is counted, found, most) of each claim; `text` is the machine code of all kernels."""
    code = kernels(text)
    for name in PRODUCTS:
        jumps = sum(block.count("BRX") for block in code[name])
        yield f"{name}: indirect jumps", jumps, 0
    for size in ["wide", "middle"]:
        yield from of_epilogue(f"gemm_{size}_bf16", code[f"gemm_{size}_bf16"], 6, 8)
        # Whole numbers become floats, times what a byte of the row and of the column is worth.
        yield from of_epilogue(f"gemm_{size}_int8", code[f"gemm_{size}_int8"], 10, 11)
    for name, bytes_most, before_most in [("gemm_wide_bf16", 256, 30), ("gemm_wide_int8", 192, 40)]:
        for loop in innermost(code[name], *TENSOR):
            yield from of_product(name, loop, bytes_most, before_most)
    for name, most in {"attend_keys_64": 280, "attend_keys_128": 370}.items():
        for loop in innermost(code[name], *TENSOR):
            turn = loop.turn("LDGSTS", *TENSOR)
            asked = sum(name.startswith(("S2R", "S2UR")) for name in turn)
            yield f"{name}: instructions of a warp and chunk", len(turn), most
            # To compute a place of shared memory anew takes one each time.
            yield f"{name}: special registers that a chunk reads", asked, 2


TENSOR = ("HMMA", "IMMA")
PRODUCTS = [
    f"{kernel}_{kind}" for kernel in ["gemm_narrow", "gemm_middle", "gemm_wide", "add_slices"] for kind in ["bf16", "int8"]
]
# Bytes of shared memory that an instruction of a warp reads or writes.
SHARED_BYTES = {"LDSM.16.M88.4": 512, "LDS.128": 512, "LDGSTS.E.BYPASS.128": 512}


def of_product(name, loop, bytes_most, before_most):
    turn = loop.turn("LDGSTS", *TENSOR)
    mma = sum(name.startswith(TENSOR) for name in turn)
    moved = sum(SHARED_BYTES.get(name, 0) for name in turn)
    yield f"{name}: bytes of shared memory for each mma", moved // mma, bytes_most
    first = next(at for at, name in enumerate(turn) if name.startswith(TENSOR))
    barrier = max(at for at, name in enumerate(turn[:first]) if name.startswith("BAR"))
    yield f"{name}: instructions from the barrier to the first mma", first - barrier - 1, before_most


def of_epilogue(name, blocks, stored_most, added_most):
    """Of the loop without an activation that takes special functions, and has most stores."""
    plain = [loop for loop in loops(blocks) if loop.count("STG") and not loop.count("MUFU", *TENSOR)]
    loop = max(plain, key=lambda loop: loop.count("STG"))
    yield f"{name}: stores of other than 16 bytes", loop.count("STG") - loop.count("STG.E.128"), 0
    # The way of most stores is that of both types, one after the other: more than there ever is.
    stored = loop.turn("STG")
    numbers = 4 * sum(name.startswith("F2FP") for name in stored) // 2
    yield f"{name}: instructions for each number that is stored", -(-len(stored) // numbers), stored_most
    added = loop.turn("LDG.E.128", "FADD", "STG")
    yield f"{name}: instructions for each number that is added", -(-len(added) // numbers), added_most
    first = next(at for at, name in enumerate(added) if name.startswith("FADD"))
    ahead = sum(name.startswith("LDG.E.128") for name in added[:first])
    yield f"{name}: loads too few before the first addition", max(0, 8 - ahead), 0
