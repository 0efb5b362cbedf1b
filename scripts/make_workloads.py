#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the four workloads of the FastTree paper as JSON-lines files of prompts.

The text is real: licences from /usr/share/common-licenses, which every Debian system has, quoted
paragraph by paragraph or in whole, between instructions and questions that stand in this script.
The same texts and the same script give the same bytes. Every line is an object with the member
"prompt"; the others say where the prompt stands in its workload.

  multi_level_system_prompts  house rules, a shelf, a role, a user's question: four levels
  few_shot_sets               sets of worked examples, cut at 4, 8 or 16, then a new case
  chains_of_reasoning         thoughts that branch step by step from a shared passage
  document_questions          long documents, several questions on each

usage: make_workloads.py [--output FOLDER] [--sources FOLDER] [--check]
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import re
import sys

SEED = 2025
SKIPPED = 77  # what ctest takes for "not run"

# The licences used, with the digest of the text in Debian 12.
SOURCES = {
    "Apache-2.0": "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30",
    "BSD": "5d588eb3b157d52112afea935c88a7ff9efddc1e2d95a42c25d3b96ad9055008",
    "CC0-1.0": "a2010f343487d3f7618affe54f789f5487602331c0a8d03f49e9a7c547cf0499",
    "GPL-1": "d77d235e41d54594865151f4751e835c5a82322b0e87ace266567c3391a4b912",
    "GPL-2": "8177f97513213526df2cf6184d8ff986c675afb514d4e68a404010521b880643",
    "GPL-3": "3972dc9744f6499f0f9b2dbf76696f2ae7ad8af9b23dde66d6af86c9dfb36986",
    "LGPL-2.1": "dc626520dcd53a22f727af3ee42c770e56c97a64fe3adb063799d8ab032fe551",
    "LGPL-3": "e3a994d82e644b03a792a930f574002658412f62407f5fee083f2555c5f23118",
}

HOUSE_RULES = """\
You work at the licence desk of a free software archive. People bring packages and ask what they
may do with them; you answer from the licence in front of you and from nothing else.

Rules of the house:
 1. Answer the question first, in one sentence; give the reason after it.
 2. Quote the words of the licence that carry your answer, and say in which section they stand.
 3. If the licence is silent, say so. Do not guess what its author would have wanted.
 4. You give information about a text. You do not give legal advice, and you say this once.
 5. Never mix the terms of two licences in one answer.
 6. Use the reader's words for the package, and plain words for everything else.
 7. If a question rests on a mistake about the licence, correct the mistake kindly, then answer.
 8. Keep an answer under two hundred words unless the reader asks for more.

"""

SHELVES = {
    "CC0-1.0": "You sit at the shelf of works given to the public domain. ",
    "BSD": "You sit at the shelf of short permissive licences. ",
    "Apache-2.0": "You sit at the shelf of permissive licences that also speak of patents. ",
    "LGPL-3": "You sit at the shelf of licences for libraries. ",
}

ROLES = {
    "developer": "The reader is a developer who wants to build on the package. Speak of source "
    "files, headers, build steps and notices. Where the licence asks for something to be done, "
    "list the steps in the order in which a release is made.\n\n",
    "packager": "The reader maintains packages for a distribution. Speak of source packages, "
    "binary packages, patches and the copyright file. Where the licence asks for a text to be "
    "passed on, say into which of these it goes.\n\n",
    "teacher": "The reader teaches a course on software and the law. Speak of the purpose of a "
    "term before its wording, give one everyday example, and end with a question that a class "
    "could discuss for ten minutes.\n\n",
}

QUESTIONS = [
    "May I sell copies of the package, and do I have to tell anyone?",
    "I fixed two bugs. Must I publish my changes?",
    "What has to be in the archive when I pass the package on unchanged?",
    "May I use the package inside a company without telling its author?",
    "Which notices must I keep, and where do they have to appear?",
    "Does the licence say anything about patents?",
    "Who is liable if the package destroys my data?",
    "May I put the package under another licence?",
    "May I use the author's name to advertise my product?",
    "What happens if I break one of the terms by mistake?",
    "Can the author take the licence back from me later?",
    "May I translate the documentation and publish the translation?",
    "I only need one function of the package. Does copying it change my duties?",
    "Is there a warranty, and may I offer one myself?",
    "What does the licence call the package, and how does it define that word?",
    "Does it matter to the licence in which country I live?",
    "May I link the package into a program whose source I keep closed?",
    "Which sentence of this text would you read to somebody who has one minute?",
    "Does a web service that runs the package count as passing it on?",
    "List every duty that begins with the words 'you must' or an equal wording.",
    "Summarise the text in three sentences for somebody who has never read a licence.",
    "Which rights does the text grant that copyright alone would not give me?",
    "May I combine the package with files under a different licence in one archive?",
    "What does the text ask of me when I change a file?",
]

THOUGHTS = [
    "The decisive words are these",
    "Before I answer I should weigh this passage",
    "Read narrowly, the question turns on this",
    "There is an exception to look at",
    "This passage seems to point the other way",
    "Compare this with what was read so far",
    "The definition that matters here is in this passage",
    "A careful reader would object with this",
]


class MissingText(Exception):
    """A source text that is needed and not there."""


class Draw:
    """Draws from random() alone, whose sequence Python promises to keep from version to version."""

    def __init__(self, seed):
        self._source = random.Random(seed)

    def chance(self, probability):
        return self._source.random() < probability

    def pick(self, choices):
        return choices[int(self._source.random() * len(choices))]

    def sample(self, choices, count):
        rest = list(choices)
        return [rest.pop(int(self._source.random() * len(rest))) for _ in range(count)]


class Licence:
    """A licence: its name, its whole text, and its paragraphs with the layout taken out."""

    def __init__(self, name, text):
        self.name = name
        self.text = text
        blocks = (re.sub(r"\s+", " ", block).strip() for block in re.split(r"\n\s*\n", text))
        # Paragraphs, not titles or notices, and none long enough to swamp its neighbours.
        self.paragraphs = [
            block
            for block in blocks
            if 160 <= len(block) <= 900 and not re.search(r"Copyright \([Cc]\)|Gnomovision", block)
        ]


def read_licences(folder):
    """Reads every source; returns the licences and the names of those unlike Debian 12's."""
    licences, changed = {}, []
    for name, digest in SOURCES.items():
        path = folder / name
        try:
            data = path.read_bytes()
            licences[name] = Licence(name, data.decode("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise MissingText(
                f"{path}: cannot be read as text: {error}\n"
                "The licences are in Debian's package base-files; elsewhere, copy them into a "
                "folder and name it with --sources."
            ) from error
        if hashlib.sha256(data).hexdigest() != digest:
            changed.append(name)
    return licences, changed


def quote(paragraph):
    return f'"{paragraph}"'


def multi_level_system_prompts(licences, draw):
    definitions = "\n\n".join(licences["Apache-2.0"].paragraphs[:8])
    house = (
        HOUSE_RULES + "Words that readers often take to mean the same, as one licence defines them:"
        f"\n\n{definitions}\n\n"
    )
    for shelf, opening in SHELVES.items():
        text = licences[shelf].text
        level_two = f"{house}{opening}The licence in front of you:\n\n{text}\n"
        for role, instructions in ROLES.items():
            for number, question in enumerate(draw.sample(QUESTIONS, 8)):
                yield {
                    "id": f"{shelf}/{role}/{number}",
                    "prompt": f"{level_two}{instructions}Reader: {question}\nYou:",
                }


def case_of_licence(licences, draw):
    name = draw.pick(["Apache-2.0", "CC0-1.0", "GPL-2", "GPL-3", "LGPL-2.1"])
    return draw.pick(licences[name].paragraphs), name


def case_of_warranty(licences, draw):
    name = draw.pick(sorted(licences))
    wanted = draw.chance(0.5)
    matching = [p for p in licences[name].paragraphs if ("warrant" in p.lower()) == wanted]
    paragraph = draw.pick(matching or licences[name].paragraphs)
    return paragraph, "yes" if "warrant" in paragraph.lower() else "no"


def case_of_words(licences, draw):
    paragraph = draw.pick(licences[draw.pick(sorted(licences))].paragraphs)
    return paragraph, str(len(paragraph.split()))


def case_of_missing_word(licences, draw):
    # The GNU licences forbid changed copies, so that no word of theirs is blanked.
    paragraph = draw.pick(licences["Apache-2.0"].paragraphs + licences["CC0-1.0"].paragraphs)
    words = paragraph.split(" ")
    places = [i for i, word in enumerate(words) if len(word) > 5 and word.isalpha()]
    place = draw.pick(places)
    answer = words[place]
    words[place] = "____"
    return " ".join(words), answer


FEW_SHOT_SETS = {
    "name_the_licence": ("From which licence is the paragraph?", case_of_licence),
    "warranty_or_not": ("Does the paragraph speak of a warranty? Say yes or no.", case_of_warranty),
    "count_the_words": ("How many words, set apart by spaces, has the paragraph?", case_of_words),
    "missing_word": ("Which word was replaced by ____ in the paragraph?", case_of_missing_word),
}


def few_shot_sets(licences, draw):
    for name, (task, make_case) in FEW_SHOT_SETS.items():
        seen = set()

        def new_case():
            for _ in range(1000):
                paragraph, answer = make_case(licences, draw)
                if paragraph not in seen:
                    seen.add(paragraph)
                    return paragraph, answer
            raise MissingText(f"few_shot_sets: too few paragraphs for the set {name}")

        opening = f"You read paragraphs of software licences. {task}\n\n"
        shots = [f"Paragraph: {p}\nAnswer: {a}\n\n" for p, a in (new_case() for _ in range(16))]
        for number in range(24):
            count = (16, 16, 8, 4)[number % 4]
            paragraph, answer = new_case()
            yield {
                "id": f"{name}/{number}",
                "shots": count,
                "answer": answer,
                "prompt": f"{opening}{''.join(shots[:count])}Paragraph: {paragraph}\nAnswer:",
            }


def chains_of_reasoning(licences, draw):
    """Per problem a tree of thoughts, six deep; a chain that stopped is a prefix of others."""
    problems = [("GPL-3", 16), ("Apache-2.0", 5), ("LGPL-2.1", 12), ("GPL-2", 7)]
    for name, question in problems:
        paragraphs = licences[name].paragraphs
        start = draw.pick(range(len(paragraphs) - 5))
        passage = paragraphs[start : start + 4]
        others = paragraphs[:start] + paragraphs[start + 4 :]
        root = (
            "Think in numbered steps, one thought a step, and quote the licence in each. "
            f"Stop when the answer is clear.\n\nFrom {name}:\n\n" + "\n\n".join(passage) +
            f"\n\nQuestion: {QUESTIONS[question]}\n"
        )
        frontier = [("", root)]
        for step in range(1, 7):
            grown = []
            for path, text in frontier:
                # Wide at the top, then mostly straight on: what a beam search leaves.
                branches = draw.pick((2, 3)) if step <= 2 else draw.pick((1, 1, 1, 2))
                unread = [p for p in others if p not in text]
                openings, read = draw.sample(THOUGHTS, branches), draw.sample(unread, branches)
                for branch in range(branches):
                    thought = f"Step {step}. {openings[branch]}: {quote(read[branch])}\n"
                    grown.append((f"{path}{branch}", text + thought))
                if step > 2 and draw.chance(0.12):
                    yield {"id": f"{name}/{path}", "steps": step - 1, "prompt": text}
            frontier = grown[:20]
        for path, text in frontier:
            yield {"id": f"{name}/{path}", "steps": 6, "prompt": text}


def document_questions(licences, draw):
    for name in ("CC0-1.0", "LGPL-3", "Apache-2.0", "GPL-1", "GPL-2"):
        document = f"Document:\n\n{licences[name].text}\nEnd of the document.\n\n"
        for number, question in enumerate(draw.sample(QUESTIONS, 14)):
            yield {
                "id": f"{name}/{number}",
                "prompt": f"{document}Answer from the document alone. {question}\nAnswer:",
            }


WORKLOADS = [multi_level_system_prompts, few_shot_sets, chains_of_reasoning, document_questions]


def write_whole(path, text):
    """Writes `text` to `path`, whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8", newline="\n")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        epilog="Without arguments, writes the files that examples/data holds.",
    )
    default = pathlib.Path(__file__).resolve().parent.parent / "examples" / "data"
    parser.add_argument("--output", type=pathlib.Path, default=default, metavar="FOLDER",
                        help="where the .jsonl files go (default: examples/data)")
    parser.add_argument("--sources", type=pathlib.Path, metavar="FOLDER",
                        default=pathlib.Path("/usr/share/common-licenses"),
                        help="where the licences are (default: %(default)s)")
    parser.add_argument("--check", action="store_true",
                        help="write nothing; exit with 1 if a file in the output folder is not "
                        f"what would be written, {SKIPPED} if the licences are not Debian 12's")
    arguments = parser.parse_args()

    try:
        licences, changed = read_licences(arguments.sources)
        if changed:
            print(f"note: {', '.join(changed)} in {arguments.sources} differ from Debian 12's, so "
                  "the workloads differ from those in examples/data", file=sys.stderr)
            if arguments.check:
                return SKIPPED
        if not arguments.check:
            arguments.output.mkdir(parents=True, exist_ok=True)
        for number, workload in enumerate(WORKLOADS, 1):
            name = workload.__name__
            lines = [json.dumps(line) for line in workload(licences, Draw(f"{SEED} {name}"))]
            text = "".join(line + "\n" for line in lines)
            path = arguments.output / f"{name}.jsonl"
            if arguments.check:
                if path.read_text(encoding="utf-8") != text:
                    print(f"error: {path}: expected what make_workloads.py writes, found another "
                          "text; run it again", file=sys.stderr)
                    return 1
            else:
                write_whole(path, text)
            done = "checked" if arguments.check else "written"
            print(f"[{number}/{len(WORKLOADS)}] {done} {path}: {len(lines)} requests, "
                  f"{len(text) / 1e6:.2f} MB", flush=True)
    except (MissingText, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
