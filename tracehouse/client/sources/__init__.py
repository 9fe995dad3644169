"""Sources: the files of a submission, made of what is at hand.

`live_model` takes a live module, method or function: `project_files` finds the modules that define it and what they
import, `main_module` writes a module of what a script or the cells of a notebook define, and `pickling` and
`weights_file` take the object itself. `named` takes what is named: a file, a folder, an archive, an installed package.
"""
