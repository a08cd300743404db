SELECT tc_id, chunk, ended, aborted FROM {raw}
