# SPDX-License-Identifier: Apache-2.0
"""All rows of the matrix, in the order of the table."""
import client_rows
import disk_rows
import link_rows
import process_rows
import worker_rows

ROWS = process_rows.ROWS + link_rows.ROWS + disk_rows.ROWS + client_rows.ROWS + worker_rows.ROWS
