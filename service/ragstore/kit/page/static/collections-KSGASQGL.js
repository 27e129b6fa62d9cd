import{h as a}from"./chunk-MV3D25FE.js";import"./chunk-2PXKMHNR.js";export{a as default};
