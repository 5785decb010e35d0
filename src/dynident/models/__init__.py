"""WHERE MODELS COME FROM: equations as text or functions, and a library of friction laws and machines."""
