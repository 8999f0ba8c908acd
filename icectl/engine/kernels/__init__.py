"""One kind of work on one file each: functions over open files that know no engine and no table.

May be imported by `run`. Start at check_data_file.py.
"""
