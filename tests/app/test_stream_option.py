"""`--stream` leaves vectors on disk, and a run that cannot use it gets an error."""


def test_a_run_with_a_buffer_streams_and_says_so(frostbench, cache, tmp_path):
    options = ["train.schedule.min_steps=9", "train.sampler.buffer_rows=16", "train.sampler.block_rows=4"]
    changes = [word for option in options for word in ("--set", option)]
    words = ["train", cache, "--preset", "plain", *changes]
    there = frostbench(*words, "--stream", "always", "--store", tmp_path / "there")
    assert there.status == 0, there.err
    assert "Vectors stay on disk: stream=always was requested" in there.out + there.err
    assert "train.sampler.buffer_rows=16 shuffles 33%" in there.out + there.err
    here = frostbench(*words, "--store", tmp_path / "here")
    assert "stay on disk" not in here.out + here.err
    assert [line.split("(")[0] for line in there.out.splitlines() if "macro F1" in line] == [
        line.split("(")[0] for line in here.out.splitlines() if "macro F1" in line
    ]


def test_a_run_without_a_buffer_is_told_what_to_set(frostbench, cache, tmp_path):
    result = frostbench("train", cache, "--preset", "baseline", "--stream", "always", "--store", tmp_path / "runs")
    assert result.status == 2
    assert "train.sampler.buffer_rows=null needs all" in result.err
    assert "Vectors stay on disk: stream=always was requested" in result.err


def test_a_choice_on_vectors_that_stay_on_disk_is_told_the_same(frostbench, cache, tmp_path):
    result = frostbench("train", cache, "--stream", "always", "--store", tmp_path / "runs")
    assert result.status == 2
    assert "head.classifier.kind=lda needs all" in result.err
    assert "such as train.sampler.buffer_rows=65536" in result.err
    assert "Vectors stay on disk: stream=always was requested" in result.err
