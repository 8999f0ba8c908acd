"""Metrics: the text that Prometheus reads."""

from icectl.cli.metrics import metrics_text


def test_counts_bytes_and_the_end_of_the_run_are_gauges():
    built = {
        "command": "expire-snapshots",
        "exit": 0,
        "status": "done",
        "result": {
            "expired": [{"snapshot_id": "1"}, {"snapshot_id": "2"}],
            "deleted": {"data_files": 3, "manifests": 1}, "deleted_bytes": 4096, "schema_id": 7,
            "format_version": 2, "dry": True, "note": "text",
            "deep": {"deeper": {"count": 1}, "list": [1]},
        },
    }  # fmt: skip
    text = metrics_text(built, table='a"b\\c', now_ms=1_700_000_000_500, duration_seconds=1.23456)
    tags = 'command="expire-snapshots",table="a\\"b\\\\c"'
    assert text == (
        "# HELP icectl_last_run_timestamp_seconds when the last run ended\n"
        "# TYPE icectl_last_run_timestamp_seconds gauge\n"
        f"icectl_last_run_timestamp_seconds{{{tags}}} 1700000000.5\n"
        "# HELP icectl_last_run_duration_seconds how long the last run took\n"
        "# TYPE icectl_last_run_duration_seconds gauge\n"
        f"icectl_last_run_duration_seconds{{{tags}}} 1.235\n"
        "# HELP icectl_last_run_exit_code exit code of the last run\n"
        "# TYPE icectl_last_run_exit_code gauge\n"
        f"icectl_last_run_exit_code{{{tags}}} 0\n"
        "# HELP icectl_last_run_success 1 if the last run exited with 0\n"
        "# TYPE icectl_last_run_success gauge\n"
        f"icectl_last_run_success{{{tags}}} 1\n"
        "# HELP icectl_last_run_status 1 for the status that the last run ended with\n"
        "# TYPE icectl_last_run_status gauge\n"
        f'icectl_last_run_status{{{tags},status="done"}} 1\n'
        "# HELP icectl_last_run_count counts of the last run's result; for a list, its length\n"
        "# TYPE icectl_last_run_count gauge\n"
        f'icectl_last_run_count{{{tags},name="deleted_data_files"}} 3\n'
        f'icectl_last_run_count{{{tags},name="deleted_manifests"}} 1\n'
        f'icectl_last_run_count{{{tags},name="expired"}} 2\n'
        "# HELP icectl_last_run_bytes bytes of the last run's result\n"
        "# TYPE icectl_last_run_bytes gauge\n"
        f'icectl_last_run_bytes{{{tags},name="deleted_bytes"}} 4096\n'
    )


def test_a_failed_run_has_no_counts():
    built = {"command": "inspect", "exit": 13, "status": "failed", "result": None}
    text = metrics_text(built, table="t", now_ms=0, duration_seconds=0.0)
    assert 'icectl_last_run_success{command="inspect",table="t"} 0\n' in text
    assert "icectl_last_run_count" not in text


def test_no_series_stands_twice_for_a_table_that_is_the_whole_target():
    row = {"table": "t", "status": "done", "exit": 3, "seconds": 1.0, "steps": [], "result": {}}
    for command, result in (
        ("maintain", {"tables": [row]}),
        ("inspect", {"tables": [row, row | {"table": "u"}]}),
    ):
        built = {"command": command, "exit": 3, "status": "incomplete", "result": result}
        lines = metrics_text(built, table="t", now_ms=0, duration_seconds=0.0).splitlines()
        series = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
        assert len(series) == len(set(series))
        assert f'icectl_last_run_exit_code{{command="{command}",table="t"}}' in series


def test_a_health_that_is_not_known_is_not_ok():
    result = {"view": "health", "verdict": "unknown", "small_files": {"verdict": "unknown"}}
    built = {"command": "inspect", "exit": 3, "status": "incomplete", "result": result}
    text = metrics_text(built, table="t", now_ms=0, duration_seconds=0.0)
    assert 'icectl_health_verdict{command="inspect",table="t",check="all"} 3\n' in text
