"""A small cross-encoder of others."""

import json

import numpy as np
import pytest
import tokenizers


@pytest.fixture
def words():
    """Return the words that it knows."""
    return "[PAD] [UNK] [CLS] [SEP] tea timer kettle boils water".split()


@pytest.fixture
def foreign(tmp_path, words):
    """Make the folder of a model whose logit is the sum of some inputs, one for each label."""
    onnx = pytest.importorskip("onnx")

    def make(labels=1, names=("input_ids", "token_type_ids"), output="logits", bias=0.0):
        helper, types = onnx.helper, onnx.TensorProto
        inputs = [helper.make_tensor_value_info(n, types.INT64, ["b", "t"]) for n in names]
        nodes = [
            helper.make_node("Sum", ["x0", "x1"], ["all"])
            if len(names) > 1
            else helper.make_node("Identity", ["x0"], ["all"]),
            helper.make_node("ReduceSum", ["all", "axis"], ["sum"], keepdims=1),
            helper.make_node("Add", ["sum", "bias"], [output]),
        ]
        casts = [
            helper.make_node("Cast", [name], [f"x{number}"], to=types.FLOAT)
            for number, name in enumerate(names)
        ]
        constants = [
            onnx.numpy_helper.from_array(np.array([1]), "axis"),
            onnx.numpy_helper.from_array(np.full(labels, bias, np.float32), "bias"),
        ]
        result = helper.make_tensor_value_info(output, types.FLOAT, ["b", labels])
        graph = helper.make_graph([*casts, *nodes], "sum", inputs, [result], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        (tmp_path / "onnx").mkdir()
        onnx.save(model, tmp_path / "onnx" / "model.onnx")
        rows = {word: row for row, word in enumerate(words)}
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(rows, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        ends = [("[SEP]", rows["[SEP]"]), ("[CLS]", rows["[CLS]"])]
        tokenizer.post_processor = tokenizers.processors.BertProcessing(*ends)
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        settings = json.dumps({"model_max_length": 8})
        (tmp_path / "tokenizer_config.json").write_text(settings, encoding="utf-8")
        return tmp_path

    return make
