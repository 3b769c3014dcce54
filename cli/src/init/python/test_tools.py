"""Tests of the tools: a tool remains a function. Run: pytest"""

import pytest
from rejoin import CallContext, Journal, RecordedStep, ToolFailure

from tools import order_status, refund


def test_a_known_order_has_a_status() -> None:
    assert order_status("A-7")["status"] == "shipped"


def test_an_unknown_order_is_an_error_for_the_model() -> None:
    with pytest.raises(ToolFailure, match="A-7"):
        order_status("X-1")


def test_nothing_is_refunded_against_the_user_s_will() -> None:
    question = "Refund 12.5 euros for A-7?"
    asked = RecordedStep(number=1, name=question, kind="question", status="completed", output={"answer": "no"})
    assert refund("A-7", CallContext(journal=Journal([asked])))["status"] == "kept"
