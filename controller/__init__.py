"""Control the switches of a fabric over P4Runtime (`python -m controller`)."""
