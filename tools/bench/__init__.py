"""Benches beside opponents: rounds A-B-A-B, medians of ratios, CPU beside throughput.

machine  the host: namespace, cores, CPU clocks, what to say of it
servers  us and those beside us, each on the server's core
duel     rounds of load, samples, tables, ratios
rows     what is measured: one function a row; disk_rows those of disks, put_rows of writes
builds   a program of its own: CPU a request of several builds in turn; guard: instructions a request
"""
