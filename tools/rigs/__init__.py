"""Rigs: the processes that tests, the demo and the bench stand on.

process     a child that dies with its parent, its log, free ports
seaweed     SeaweedFS with its S3 port and one key: the remote
cloudproxy  a proxy in front of it: a cloud's latency and bandwidth, faults on command, counts
forebay     our server
fakeremote  a remote in this process whose every answer a test writes itself
"""
