"""Synthetic tokenizers of the kinds that real checkpoints have, the same to the byte every time.

Nothing is trained: the vocabularies are spelled out from one hundred syllables ("ba", "be", ...),
so that no trainer's order of ties can change them.
"""

import random

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

TOKENS = 480  # ids the tokenizers know; the models have more rows, as real ones do
SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnpqrstvwxz" for vowel in "aeiou"]
SIGNS = [chr(code) for code in range(33, 127) if not chr(code).islower()]
LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
SPACE = "Ġ"  # how byte-level tokenizers write a space
METASPACE = "▁"

# The splitting rule of Llama 3 and Qwen, which needs look-ahead.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_level(first, last=(), split=False, **bpe):
    """A byte-level BPE with special tokens before and after the ordinary ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [(syllable[0], syllable[1]) for syllable in SYLLABLES]
    merges += [(SPACE, syllable) for syllable in SYLLABLES]
    pairs = [(a, b) for a in SYLLABLES[::3] for b in SYLLABLES[1::7]]
    merges += pairs[: TOKENS - len(first) - len(last) - len(alphabet) - len(merges)]
    words = [*first, *alphabet, *(a + b for a, b in merges), *last]
    made = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, merges, **bpe))
    byte_split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not split)
    if split:
        rule = pre_tokenizers.Split(Regex(SPLIT), behavior="isolated")
        byte_split = pre_tokenizers.Sequence([rule, byte_split])
    made.pre_tokenizer = byte_split
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([*first, *last])
    return made


def gpt2():
    """No special token is added to a text; the only one comes last in the vocabulary."""
    made = byte_level([], ["<|endoftext|>"])
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    return made, {name: "<|endoftext|>" for name in ("bos_token", "eos_token", "unk_token")}


def opt():
    """`</s>` is the end, and also opens every text."""
    made = byte_level(["<s>", "<pad>", "</s>", "<unk>"])
    made.post_processor = template("</s> $A", {"</s>": 2})
    return made, dict(bos_token="</s>", eos_token="</s>", unk_token="</s>", pad_token="<pad>")


def bart():
    """`<s> text </s>`."""
    made = byte_level(["<s>", "<pad>", "</s>", "<unk>"])
    made.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    return made, dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>")


def llama():
    """The beginning is added, special tokens come last, and there are two ends."""
    last = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"]
    made = byte_level([], last, split=True, ignore_merges=True)
    made.post_processor = template("<|begin_of_text|> $A", {last[0]: TOKENS - 3})
    return made, dict(bos_token=last[0], eos_token=last[2], pad_token=last[1])


def qwen():
    """Nothing is added to a text; two ends."""
    made = byte_level([], ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], split=True)
    made.normalizer = normalizers.NFC()
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    return made, dict(eos_token="<|im_end|>", pad_token="<|endoftext|>")


def t5():
    """Unigram over text whose spaces are marks; `</s>` closes every text."""
    pieces = [METASPACE, *LETTERS, *SIGNS, *SYLLABLES, *(METASPACE + s for s in SYLLABLES)]
    pairs = [a + b for a in SYLLABLES[::2] for b in SYLLABLES[1::7]]
    specials = ["<pad>", "</s>", "<unk>"]
    pieces += pairs[: TOKENS - len(specials) - len(pieces)]
    noise = random.Random(0)  # no two ways to cut a word may score the same
    cost = {1: 10.0, 2: 7.0, 3: 6.5, 4: 12.5}
    scored = [(word, 0.0) for word in specials]
    scored += [(word, -round(cost[len(word)] + noise.random(), 6)) for word in pieces]
    made = Tokenizer(models.Unigram(scored, unk_id=2))
    made.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.post_processor = template("$A </s>", {"</s>": 1})
    made.add_special_tokens(specials)
    return made, dict(eos_token="</s>", unk_token="<unk>", pad_token="<pad>")


def bert():
    """WordPiece, lower case, `[CLS] text [SEP]`."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    signs = [sign for sign in SIGNS if not sign.isupper()]
    words = [*specials, *signs, *LETTERS, *("##" + c for c in LETTERS)]
    words += [*SYLLABLES, *("##" + syllable for syllable in SYLLABLES)]
    pairs = [a + b for a in SYLLABLES[::2] for b in SYLLABLES[1::7]]
    words += pairs[: TOKENS - len(words)]
    made = Tokenizer(
        models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.post_processor = template("[CLS] $A [SEP]", {"[CLS]": 2, "[SEP]": 3})
    made.add_special_tokens(specials)
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return made, dict(zip(names, specials))


def bert_pairs():
    """`[CLS] text [SEP] pair [SEP]`, of which the last two are of token type 1."""
    made, names = bert()
    pair = "[CLS] $A [SEP] $B:1 [SEP]:1"
    made.post_processor = template("[CLS] $A [SEP]", {"[CLS]": 2, "[SEP]": 3}, pair)
    return made, names


def bert_typed_pairs():
    """The same with the names of what a model is given: token types among it."""
    made, names = bert_pairs()
    given = ["input_ids", "token_type_ids", "attention_mask"]
    return made, names | dict(model_input_names=given)


def template(single, ids, pair=None):
    """The rule that adds special tokens around one text, and around two."""
    more = {} if pair is None else {"pair": pair}
    return processors.TemplateProcessing(single=single, special_tokens=list(ids.items()), **more)
