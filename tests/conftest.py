"""What all tests share: on a machine without a C compiler, a test of what needs one is skipped, with the reason."""

import pytest

from dynident.errors import NotSupported
from dynident.kernels.compiler import compiler


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    outcome = yield
    raised = outcome.excinfo[1] if outcome.excinfo else None
    if isinstance(raised, NotSupported) and "needs a C compiler" in str(raised) and compiler() is None:
        outcome.force_exception(pytest.skip.Exception(str(raised), _use_item_location=True))
