"""What a kernel that a test starts executes first, as its PYTHONSTARTUP: the checks under which the tests run."""

import sys
import warnings
from pathlib import Path

import jaxtyping

sys.path.append(str(Path(__file__).parent))
jaxtyping.install_import_hook(["statmech_attention", "attention_book"], "typecheck.typecheck")
for _module in ("__main__", "statmech_attention.*", "attention_book.*"):
    warnings.filterwarnings("error", module=_module)
