"""A logit is one finite number."""

import numpy as np
import pytest

from skillsearch.errors import EmbedderError
from skillsearch.readers.reader import checked_logit


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_finite_number_is_a_logit_whatever_its_shape(shape):
    assert checked_logit("tiny", np.full(shape, -2.5, np.float32)) == -2.5


@pytest.mark.parametrize("numbers", [[], [1.0, 2.0], [np.nan], [-np.inf]])
def test_anything_else_is_refused_with_the_model_and_the_shape(numbers):
    with pytest.raises(EmbedderError, match=r"'tiny' gave numbers of shape \(\d,\).* one label"):
        checked_logit("tiny", np.array(numbers))
