"""The lab: predict, reveal, check, score. What the course's notebooks ask of the engine, and what it answers.

In: guesses, traces, and the rules, policies and functions that learners write. Out: values that print themselves:
:class:`~tinysched.lab.predict.Revealed`, :class:`~tinysched.lab.check.Report`, :class:`~tinysched.lab.score.Score`.
No answer is written down anywhere: each is computed by the engine when it is asked for.

Read in this order: predict and questions (guesses and answers), draw (random cases that shrink), exercise and check
(the judge), score, then ``exercises``, one file per notebook.

>>> from tinysched import Tensor, capture
>>> x = Tensor([[1, 2, 3], [4, 5, 6]]).realize()
>>> reveal(predict("x * 2 + 1 kernels", 2), capture(x * 2 + 1))
x * 2 + 1 kernels: you said 2, the engine says 1 kernel. 1 too many: close.
  why   kernel 0 (E_2_3): ...
"""

from tinysched.lab.check import Report, check
from tinysched.lab.exercise import Exercise, Wrong, all_exercises
from tinysched.lab.notyet import NotYet
from tinysched.lab.picture import Picture, picture
from tinysched.lab.predict import Prediction, Revealed, predict, reveal
from tinysched.lab.questions import questions
from tinysched.lab.score import Score, score

__all__ = [
    "Exercise", "NotYet", "Picture", "Prediction", "Report", "Revealed", "Score", "Wrong", "all_exercises", "check",
    "picture", "predict", "questions", "reveal", "score",
]  # fmt: skip
