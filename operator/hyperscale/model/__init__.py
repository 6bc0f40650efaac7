"""The frozen types that pass between stages, and the constants that leave the process. In: nothing. Out: types for every room."""
