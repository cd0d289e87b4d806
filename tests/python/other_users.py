# SPDX-License-Identifier: Apache-2.0
"""Programs that a test of root's starts as other users."""
import os
import shutil
import subprocess


def as_user(user):
    """What goes before the words of a command to make its process one of that user's."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


def why_not(user, *command):
    """Why this process cannot start that command as that user; None if it can. In a container, root may lack the capability, or the
    container's user namespace the user."""
    try:
        done = subprocess.run([*as_user(user), *(command or ["true"])], capture_output=True, text=True, check=False, cwd="/")
    except FileNotFoundError:
        return "there is no setpriv (package util-linux)"
    return None if done.returncode == 0 else f"user {user}: {done.stderr.strip() or f'exit code {done.returncode}'}"


def copied(files, folder):
    """Paths of copies that every user can read and run. The tree may be hidden from other users: it lies in /root, or was made
    with umask 077."""
    copies = [shutil.copyfile(file, os.path.join(folder, os.path.basename(file))) for file in files]
    for path in (folder, *copies):
        os.chmod(path, 0o755)
    return copies
