"""Work over the rows of data files: kernels that check, read and write them.

May be imported by `commit` and what lies above. Start at kernels/; isolated.py runs them where a
crash of native code ends no more than one file's check.
"""
