"""Writes the data and the task files of lm-evaluation-harness into a folder, from the tree's evaluation data."""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(os.path.dirname(HERE), "data")
# Short enough to be one window of the harness and of dsv3-eval (511 tokens).
STORY_CHARACTERS = 700


def lines(name):
    with open(os.path.join(DATA, name), encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip()]


def write(folder, name, rows):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def prepare(folder, problems, stories):
    """The first `problems` and `stories`."""
    os.makedirs(folder, exist_ok=True)
    write(folder, "problems.jsonl", [{"question": p["question"], "final": p["final"]} for p in lines("problems.jsonl")[:problems]])
    write(folder, "stories.jsonl", [{"text": s["text"][:STORY_CHARACTERS]} for s in lines("stories_heldout.jsonl")[:stories]])
    for task in ("problems", "stories"):
        with open(os.path.join(HERE, task + ".yaml.in"), encoding="utf-8") as f:
            text = f.read().replace("FOLDER", folder)
        with open(os.path.join(folder, task + ".yaml"), "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    prepare(os.path.abspath(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
